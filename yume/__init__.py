"""Yume looks back after each batch of runs, writes down what it learnt, and measures whether that helped."""
