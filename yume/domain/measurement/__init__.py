"""Did a version really lower the failure rate? Rates, effects, intervals for every look, verdicts."""
