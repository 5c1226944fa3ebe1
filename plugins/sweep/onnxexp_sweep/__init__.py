"""Export a zoo of models with many options, on one machine or many.

`onnxexp sweep` is the command; `docs/how-to/sweep.md` describes it. One *cell* of a sweep is one model with one opset, one
frontend and one set of further options. Each cell runs in a process of its own.
"""
