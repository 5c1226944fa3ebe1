"""Samples of calls on quantized tensors, for the tests and the conformance run.

Every table has the samples of a function by the function's name.
"""

from tests.quantized.samples.embedding import EMBEDDING
from tests.quantized.samples.exact import EXACT
from tests.quantized.samples.layers import CONVOLUTION, LINEAR_IN_FLOAT, PACKING
from tests.quantized.samples.other import OTHER
from tests.quantized.samples.out import OUT
from tests.quantized.samples.rounded import ROUNDED
from tests.quantized.samples.run_time import RECURRENT, RUN_TIME

__all__ = ["CONVOLUTION", "EMBEDDING", "EXACT", "LINEAR_IN_FLOAT", "OTHER", "OUT", "PACKING", "RECURRENT", "ROUNDED", "RUN_TIME"]
