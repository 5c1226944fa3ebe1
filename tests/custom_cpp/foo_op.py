"""The custom operator of torch.onnx's documentation, in C++.

One library is for torch, the other for ONNX Runtime. Both are built once for a test session, and its processes share them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import torch
from torch.utils import cpp_extension

_TORCH = """
#include <ATen/ATen.h>
#include <torch/library.h>

at::Tensor foo_forward(const at::Tensor& input1, const at::Tensor& input2, double attr1, int64_t attr2) {
  TORCH_CHECK(input1.sizes() == input2.sizes(), "foo_forward: the sizes differ");
  return input1 * attr1 + input2 * attr2;
}

std::tuple<at::Tensor, at::Tensor> bar(
    const at::Tensor& x, const std::optional<at::Tensor>& weight, at::TensorList more, bool twice, at::IntArrayRef sizes) {
  at::Tensor total = x.clone();
  if (weight.has_value()) total = total * *weight;
  for (const at::Tensor& each : more) total = total + each;
  return {twice ? total * 2 : total, at::cat({x, x}).sum(0, true) + static_cast<double>(sizes.size())};
}

at::Tensor scaled(const at::Tensor& x, double by, c10::SymInt plus) { return x * by + plus.guard_int(__FILE__, __LINE__); }

TORCH_LIBRARY(cpp_ops, m) {
  m.def("scaled(Tensor x, float by, SymInt plus) -> Tensor");
  m.def("foo_forward(Tensor input1, Tensor input2, float attr1, int attr2) -> Tensor");
  m.def("bar(Tensor x, Tensor? weight, Tensor[] more, bool twice, int[] sizes) -> (Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(cpp_ops, CPU, m) {
  m.impl("foo_forward", &foo_forward);
  m.impl("bar", &bar);
  m.impl("scaled", &scaled);
}
"""
_ORT = """
#include <cstdint>
#include <cstddef>

typedef void* Status;
struct Op {  // OrtCustomOp
  uint32_t version;
  void* create; const char* (*name)(const Op*); const char* (*provider)(const Op*);
  int (*input_type)(const Op*, size_t); size_t (*inputs)(const Op*);
  int (*output_type)(const Op*, size_t); size_t (*outputs)(const Op*);
  void* compute; void (*destroy)(void*);
  int (*input_kind)(const Op*, size_t); int (*output_kind)(const Op*, size_t); int (*memory)(const Op*, size_t);
  int (*one[4])(const Op*);
  Status (*create_v2)(const Op*, const void* const*, const void*, void**); Status (*compute_v2)(void*, void*);
  void* infer; int (*start)(const Op*); int (*end)(const Op*); void* rest[4];
};
static const void* const* api;
#define CALL(place, ...) ((Status(*)(__VA_ARGS__))api[place])
struct Kernel { float attr1; int64_t attr2; };

static Status create(const Op*, const void* const*, const void* info, void** kernel) {
  Kernel* made = new Kernel();
  CALL(85, const void*, const char*, float*)(info, "attr1", &made->attr1);
  CALL(86, const void*, const char*, int64_t*)(info, "attr2", &made->attr2);
  *kernel = made;
  return nullptr;
}
static Status compute(void* kernel, void* context) {
  const void* inputs[2]; void* info; size_t rank; int64_t sizes[8]; void* output; float* data[3]; int64_t count = 1;
  for (size_t index = 0; index < 2; ++index) {
    CALL(90, void*, size_t, const void**)(context, index, &inputs[index]);
    CALL(51, const void*, void**)(inputs[index], (void**)&data[index]);
  }
  CALL(65, const void*, void**)(inputs[0], &info);
  CALL(61, void*, size_t*)(info, &rank);
  CALL(62, void*, int64_t*, size_t)(info, sizes, rank);
  ((void(*)(void*))api[99])(info);
  CALL(91, void*, size_t, const int64_t*, size_t, void**)(context, 0, sizes, rank, &output);
  CALL(51, const void*, void**)(output, (void**)&data[2]);
  for (size_t axis = 0; axis < rank; ++axis) count *= sizes[axis];
  Kernel* own = (Kernel*)kernel;
  for (int64_t index = 0; index < count; ++index) data[2][index] = data[0][index] * own->attr1 + data[1][index] * own->attr2;
  return nullptr;
}
static Op foo;
extern "C" Status RegisterCustomOps(void* options, const void* const* base) {
  api = ((const void* const* (*)(uint32_t))base[0])(20);
  foo.version = 20;
  foo.name = [](const Op*) { return "Foo"; };
  foo.provider = [](const Op*) -> const char* { return nullptr; };
  foo.input_type = foo.output_type = [](const Op*, size_t) { return 1; };
  foo.inputs = [](const Op*) -> size_t { return 2; };
  foo.outputs = [](const Op*) -> size_t { return 1; };
  foo.destroy = [](void* kernel) { delete (Kernel*)kernel; };
  foo.input_kind = foo.output_kind = foo.memory = [](const Op*, size_t) { return 0; };
  for (auto& each : foo.one) each = [](const Op*) { return 1; };
  foo.create_v2 = create;
  foo.compute_v2 = compute;
  foo.start = [](const Op*) { return 1; };
  foo.end = [](const Op*) { return 1000; };
  void* domain;
  if (Status failed = CALL(26, const char*, void**)("custom_domain", &domain)) return failed;
  if (Status failed = CALL(27, void*, const Op*)(domain, &foo)) return failed;
  return CALL(28, void*, void*)(options, domain);
}
"""


def torch_library() -> Path:
    """Build the library that registers `cpp_ops::foo_forward` and `cpp_ops::bar`.

    The operators have no fake kernels.
    """
    includes = [f"-I{path}" for path in cpp_extension.include_paths()]
    libraries = [f"-L{path}" for path in cpp_extension.library_paths()]
    abi = f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"
    return _built("cpp_ops", _TORCH, [abi, *includes], [*libraries, "-lc10", "-ltorch_cpu"])


def ort_library() -> Path:
    """Build the library with ONNX Runtime's kernel of `custom_domain::Foo`."""
    return _built("foo_ort", _ORT, [], [])


def load_foo() -> None:
    """Load the torch library into this process."""
    torch.ops.load_library(str(torch_library()))


def _built(name: str, source: str, flags: Sequence[str], libraries: Sequence[str]) -> Path:
    folder = Path(tempfile.gettempdir()) / f"onnxexp-tests-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    digest = hashlib.sha256((source + torch.__version__).encode()).hexdigest()
    target = folder / f"{name}-{digest[:12]}.so"
    with _locked(folder / f"{name}.lock"):
        if not target.exists():
            code, made = folder / f"{name}.cpp", folder / f"{name}.partial"
            code.write_text(source)
            command = ["c++", "-shared", "-fPIC", "-std=c++20", "-O1", *flags, str(code), "-o", str(made), *libraries]
            subprocess.run(command, check=True)
            made.replace(target)
    return target


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
