"""The exported program, with methods to run, verify, print and save it."""
