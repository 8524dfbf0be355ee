"""Postgres: a .sql file of named queries and a .py module of typed functions for each group of tables."""
