"""What a person asks of Yume: each act is one transaction on the rows, and says by whom and why."""
