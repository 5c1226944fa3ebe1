"""Compare a trace with others, at the example's sizes and at other sizes."""
