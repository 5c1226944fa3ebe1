"""Functions as people write them, with symbolics and without."""

from __future__ import annotations

from typing import Any

import torch
from torch.onnx import symbolic_helper


class MyRelu(torch.autograd.Function):
    """The example of torch.onnx's documentation."""

    @staticmethod
    def forward(ctx, input: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(input)
        return input.clamp(min=0)

    @staticmethod
    def backward(ctx, grad):
        (input,) = ctx.saved_tensors
        return grad * (input > 0)

    @staticmethod
    def symbolic(g, input):
        return g.op("Clip", input, g.op("Constant", value_t=torch.tensor(0, dtype=torch.float)))


class MyLogExp(torch.autograd.Function):
    """An example of torch.onnx's documentation, without a symbolic."""

    @staticmethod
    def forward(ctx, input: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(input)
        h = input.exp()
        return h.log().log()


class Scale(torch.autograd.Function):
    """Constants of many kinds beside the tensor."""

    @staticmethod
    def forward(ctx, x, factor, how, dtype, axes, nothing, flag):
        assert how == "mul" and dtype is torch.float32 and nothing is None and flag is True
        return x * factor + sum(axes)

    @staticmethod
    def symbolic(g, x, factor, how, dtype, axes, nothing, flag):
        assert type(factor) is float and how == "mul" and dtype is torch.float32 and nothing is None and flag is True
        scaled = g.op("Mul", x, g.op("Constant", value_t=torch.tensor(factor)))
        return g.op("Add", g.op("Constant", value_t=torch.tensor(float(sum(axes)))), scaled)


class Typed(torch.autograd.Function):
    """The symbolic is behind torch.onnx's own parse_args."""

    @staticmethod
    def forward(ctx, x, y, alpha, beta):
        return x * alpha + y * beta

    @staticmethod
    @symbolic_helper.parse_args("v", "v", "f", "i")
    def symbolic(g, x, y, alpha, beta):
        left = g.op("Mul", x, g.op("Constant", value_t=torch.tensor(alpha)))
        right = g.op("Mul", y, g.op("Constant", value_t=torch.tensor(float(beta))))
        return g.op("Sum", left, right)


class MinMax(torch.autograd.Function):
    """Two outputs, of other dtypes."""

    @staticmethod
    def forward(ctx, x):
        values, indices = x.max(1)
        ctx.mark_non_differentiable(indices)
        return values, indices

    @staticmethod
    def symbolic(g, x):
        values, indices = g.op("TopK", x, g.op("Constant", value_t=torch.tensor([1])), axis_i=1, outputs=2)
        return symbolic_helper._squeeze_helper(g, values, [1]), symbolic_helper._squeeze_helper(g, indices, [1])


class Repeat(torch.autograd.Function):
    """A size as an argument."""

    @staticmethod
    def forward(ctx, x, size):
        return x.sum(0, keepdim=True) * size

    @staticmethod
    def symbolic(g, x, size):
        assert size.type().dim() == 0
        total = symbolic_helper._reducesum_helper(g, x, axes_i=[0], keepdims_i=1)
        return g.op("Mul", total, g.op("Cast", size, to_i=1))


class SetUp(torch.autograd.Function):
    """The newer style, with a default."""

    @staticmethod
    def forward(x, slope=0.5):
        return torch.where(x > 0, x, x * slope)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.slope = inputs[1]
        ctx.save_for_backward(output)

    @staticmethod
    def symbolic(g, x, slope):
        return g.op("LeakyRelu", x, alpha_f=slope)


class Outer(torch.autograd.Function):
    """A Function without a symbolic, which calls one that has a symbolic."""

    @staticmethod
    def forward(ctx, x):
        return MyRelu.apply(x) + 1


class Around(torch.autograd.Function):
    """A symbolic, around a Function that has one too: the outer one counts."""

    @staticmethod
    def forward(ctx, x):
        return MyRelu.apply(x) * 1

    @staticmethod
    def symbolic(g, x):
        return g.op("Relu", x)


class Reversal(torch.autograd.Function):
    """Gradient reversal: the output is a view of the input."""

    @staticmethod
    def forward(ctx, x, alpha):
        ctx.alpha = alpha
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -ctx.alpha * grad, None

    @staticmethod
    def symbolic(g, x, alpha):
        return g.op("Identity", x)


class Same(torch.autograd.Function):
    """The output is the input itself."""

    @staticmethod
    def forward(ctx, x):
        return x

    @staticmethod
    def symbolic(g, x):
        return x


class Dirty(torch.autograd.Function):
    """Writes into its input."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.mul_(2).add_(1)
        return x

    @staticmethod
    def symbolic(g, x):
        two, one = (g.op("Constant", value_t=torch.tensor(value)) for value in (2.0, 1.0))
        return g.op("Sum", g.op("Mul", x, two), one)


class DirtyInlined(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)


class NonZero(torch.autograd.Function):
    """A shape that depends on the data."""

    @staticmethod
    def forward(ctx, x):
        return x.nonzero()

    @staticmethod
    def symbolic(g, x):
        return g.op("Transpose", g.op("NonZero", x), perm_i=[1, 0])


class Listed(torch.autograd.Function):
    """A list of tensors, and a dict."""

    @staticmethod
    def forward(ctx, tensors, options):
        return torch.cat(tensors, options["axis"])

    @staticmethod
    def symbolic(g, tensors, options):
        return g.op("Concat", *tensors, axis_i=options["axis"])


class Rounding(torch.autograd.Function):
    """A straight-through estimator, as quantization-aware training has it."""

    @staticmethod
    def forward(ctx, x, scale, zero_point, low, high):
        return (torch.clamp(torch.round(x / scale) + zero_point, low, high) - zero_point) * scale

    @staticmethod
    def backward(ctx, grad):
        return grad, None, None, None, None

    @staticmethod
    def symbolic(g, x, scale, zero_point, low, high):
        zero = g.op("Cast", zero_point, to_i=symbolic_helper.cast_pytorch_to_onnx["Char"])
        return g.op("DequantizeLinear", g.op("QuantizeLinear", x, scale, zero), scale, zero)


class Optional(torch.autograd.Function):
    """None among the outputs and the inputs."""

    @staticmethod
    def forward(ctx, x, bias):
        return (x if bias is None else x + bias) * 3, None

    @staticmethod
    def symbolic(g, x, bias):
        three = g.op("Constant", value_t=torch.tensor(3.0))
        return g.op("Mul", three, x if symbolic_helper._is_none(bias) else g.op("Add", bias, x))


class Foreign(torch.autograd.Function):
    """An operator of the author's own domain."""

    @staticmethod
    def forward(ctx, x, alpha):
        return x * alpha

    @staticmethod
    def symbolic(g, x, alpha):
        return g.op("my.domain::Foo", x, alpha_f=alpha, axes_i=[0, 1], mode_s="fast", none_i=None).setType(x.type())


class Holder(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function
        self.weight = torch.nn.Parameter(torch.linspace(-1, 1, 4))

    def forward(self, *args: Any) -> Any:
        return self.function(*args)


class Plain(torch.autograd.Function):
    """No symbolic, constants beside the tensor."""

    @staticmethod
    def forward(ctx, x, factor, count, text, nothing):
        return x * factor + count


class Numpy(torch.autograd.Function):
    """The forward computes with NumPy."""

    @staticmethod
    def forward(ctx, x):
        import numpy as np

        return torch.from_numpy(np.sin(x.detach().numpy()))

    @staticmethod
    def symbolic(g, x):
        return g.op("Sin", x)


class Looks(torch.autograd.Function):
    """The forward reads the values of a tensor."""

    @staticmethod
    def forward(ctx, x):
        if x.max() > 1000:
            raise ValueError("too large")
        return x.abs()

    @staticmethod
    def symbolic(g, x):
        return g.op("Abs", x)
