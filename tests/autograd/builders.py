"""Functions whose symbolics build blocks, own nodes, torch.onnx's symbolics."""

from __future__ import annotations

import torch
from torch.onnx import symbolic_helper


class Branching(torch.autograd.Function):
    """The symbolic makes an If, as torchvision's do."""

    @staticmethod
    def forward(ctx, x, y):
        return torch.where(x.sum() > 0, x + y, x - y)

    @staticmethod
    def symbolic(g, x, y):
        from torch.onnx._internal.torchscript_exporter import jit_utils, utils

        total = symbolic_helper._reducesum_helper(g, x, keepdims_i=0)
        cond = g.op("Greater", total, g.op("Constant", value_t=torch.tensor(0.0)))
        result, (then, otherwise), _ = jit_utils.add_op_with_blocks(g, "If", cond, n_blocks=2)
        utils._add_output_to_block(then.block, then.op("Add", x, y))
        utils._add_output_to_block(otherwise.block, otherwise.op("Sub", x, y))
        return result


class Looping(torch.autograd.Function):
    """The symbolic makes a Loop."""

    @staticmethod
    def forward(ctx, x):
        return x * 8

    @staticmethod
    def symbolic(g, x):
        from torch.onnx._internal.torchscript_exporter import jit_utils, utils

        trips = g.op("Constant", value_t=torch.tensor(3))
        going = g.op("Constant", value_t=torch.tensor(True))
        result, (body,), _ = jit_utils.add_op_with_blocks(g, "Loop", trips, going, x)
        utils._add_input_to_block(body.block)
        cond = utils._add_input_to_block(body.block)
        value = utils._add_input_to_block(body.block)
        value.setType(x.type())
        utils._add_output_to_block(body.block, body.op("Identity", cond))
        utils._add_output_to_block(body.block, body.op("Add", value, value))
        return result


class Stock(torch.autograd.Function):
    """The symbolic calls one of torch.onnx's own."""

    @staticmethod
    def forward(ctx, x):
        return torch.nn.functional.gelu(x)

    @staticmethod
    def symbolic(g, x):
        from torch.onnx import symbolic_opset9

        return symbolic_opset9.gelu(g, x, "none")


class Mutating(torch.autograd.Function):
    """The symbolic changes a node after it is made."""

    @staticmethod
    def forward(ctx, x):
        return x.transpose(0, 1)

    @staticmethod
    def symbolic(g, x):
        made = g.op("Transpose", x)
        made.node().is_("perm", [1, 0])
        return made


class Low(torch.autograd.Function):
    """The symbolic builds with the graph's own methods."""

    @staticmethod
    def forward(ctx, x):
        return x.exp()

    @staticmethod
    def symbolic(g, x):
        node = g.create("onnx::Exp", [x], 1)
        g.insertNode(node)
        return node.output()


class Promoted(torch.autograd.Function):
    """The symbolic relies on torch.onnx casting: integers plus a float constant."""

    @staticmethod
    def forward(ctx, x):
        return x * 1.5

    @staticmethod
    def symbolic(g, x):
        return g.op("Mul", x, g.op("Constant", value_t=torch.tensor(1.5)))


class Shaped(torch.autograd.Function):
    """The symbolic reads every property of the value."""

    @staticmethod
    def forward(ctx, x):
        return x.reshape(x.shape[0], -1)

    @staticmethod
    def symbolic(g, x):
        assert symbolic_helper._get_tensor_rank(x) == 3
        assert symbolic_helper._get_tensor_sizes(x)[1:] == [3, 2]
        assert symbolic_helper._is_value(x) and symbolic_helper._is_tensor(x) and not symbolic_helper._is_none(x)
        assert x.type().scalarType() == "Float" and x.type().dtype() == torch.float32
        assert isinstance(x.debugName(), str) and not x.isCompleteTensor() and x.requiresGrad() in (True, False)
        assert symbolic_helper._get_tensor_dim_size(g.op("Relu", x), 2) == 2
        return g.op("Flatten", x, axis_i=1)
