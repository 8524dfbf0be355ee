"""The three questions that a model is asked, and how its answers are read. Pure: no call is made here."""
