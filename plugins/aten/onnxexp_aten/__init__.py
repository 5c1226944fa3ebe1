"""onnxexp-plugin-aten: symbolics of torch's own operators, for opsets 9 to 26."""

from __future__ import annotations

from onnxexp_aten import activation  # noqa: F401
from onnxexp_aten import adaptive  # noqa: F401
from onnxexp_aten import assignment  # noqa: F401
from onnxexp_aten import attention  # noqa: F401
from onnxexp_aten import comparison  # noqa: F401
from onnxexp_aten import conversion  # noqa: F401
from onnxexp_aten import convolution  # noqa: F401
from onnxexp_aten import creation  # noqa: F401
from onnxexp_aten import cumulative  # noqa: F401
from onnxexp_aten import dropout  # noqa: F401
from onnxexp_aten import einsum  # noqa: F401
from onnxexp_aten import elementwise  # noqa: F401
from onnxexp_aten import embedding  # noqa: F401
from onnxexp_aten import indexing  # noqa: F401
from onnxexp_aten import joining  # noqa: F401
from onnxexp_aten import linalg  # noqa: F401
from onnxexp_aten import normalization  # noqa: F401
from onnxexp_aten import norms  # noqa: F401
from onnxexp_aten import packing  # noqa: F401
from onnxexp_aten import padding  # noqa: F401
from onnxexp_aten import patches  # noqa: F401
from onnxexp_aten import pooling  # noqa: F401
from onnxexp_aten import random  # noqa: F401
from onnxexp_aten import rearranging  # noqa: F401
from onnxexp_aten import recurrent  # noqa: F401
from onnxexp_aten import reduction  # noqa: F401
from onnxexp_aten import resampling  # noqa: F401
from onnxexp_aten import scalar  # noqa: F401
from onnxexp_aten import scatter  # noqa: F401
from onnxexp_aten import shape  # noqa: F401
from onnxexp_aten import softmax  # noqa: F401
from onnxexp_aten import sorting  # noqa: F401
from onnxexp_aten import splitting  # noqa: F401
from onnxexp_aten import transformer  # noqa: F401
from onnxexp_aten import unary  # noqa: F401
from onnxexp_aten import vision  # noqa: F401
from onnxexp_aten.common import aten as plugin

__all__ = ["plugin"]
