"""onnxexp-plugin-autograd: lower torch.autograd.Function.

A Function with a symbolic is lowered by it. Any other is inlined into the operators of its forward.

class MyRelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): ...

    @staticmethod
    def symbolic(g, x):
        return g.op("Clip", x, g.op("Constant", value_t=torch.tensor(0.0)))
"""

from __future__ import annotations

from onnxexp_autograd.plugin import Autograd

__all__ = ["Autograd", "plugin"]

plugin = Autograd()
