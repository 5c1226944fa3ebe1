"""ONNX files of any origin: an error with the tensor's name, or the model."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from google.protobuf.internal import encoder
from onnx import TensorProto, helper

from onnxexp import OptionError
from onnxexp._serialize import WriteOptions, save
from onnxexp._serialize.model_reader import read_model

DATA = np.arange(6, dtype=np.float32)
SECRET = "the private file"


def weight(**changes: object) -> TensorProto:
    tensor = helper.make_tensor("w", TensorProto.FLOAT, [6], DATA.tobytes(), raw=True)
    for name, value in changes.items():
        tensor.ClearField(name)
        if isinstance(value, list):
            getattr(tensor, name).extend(value)
        else:
            setattr(tensor, name, value)
    return tensor


def external(dims: list[int] | None = None, dtype: int = TensorProto.FLOAT, **entries: object) -> TensorProto:
    tensor = TensorProto(name="w", data_type=dtype, data_location=TensorProto.EXTERNAL)
    tensor.dims.extend([6] if dims is None else dims)
    for key, value in {"location": "data", **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def model(
    *weights: TensorProto, nodes: list[onnx.NodeProto] | None = None, functions: list[onnx.FunctionProto] | None = None
) -> onnx.ModelProto:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [None])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None])
    nodes = nodes or [helper.make_node("Add", ["x", "w"], ["y"])]
    graph = helper.make_graph(nodes, "g", [value], [result], list(weights))
    imports = [helper.make_opsetid("", 20), helper.make_opsetid("own", 1)]
    return helper.make_model(graph, functions=functions or [], opset_imports=imports, ir_version=10)


def inside(tensor: TensorProto, where: str) -> onnx.ModelProto:
    """Build a model with the tensor in an attribute, subgraph, function or list."""
    if where == "attribute":
        return model(nodes=[helper.make_node("Constant", [], ["y"], value=tensor)])
    if where == "list":
        return model(nodes=[helper.make_node("Own", ["x"], ["y"], domain="own", values=[tensor])])
    inner = helper.make_graph([], "inner", [], [helper.make_tensor_value_info("w", TensorProto.FLOAT, None)], [tensor])
    if where == "subgraph":
        return model(nodes=[helper.make_node("If", ["x"], ["y"], then_branch=inner, else_branch=inner)])
    body = [helper.make_node("Constant", [], ["out"], value=tensor)]
    own = helper.make_function("own", "Own", ["a"], ["out"], body, [helper.make_opsetid("", 20)])
    return model(nodes=[helper.make_node("Own", ["x"], ["y"], domain="own")], functions=[own])


def written(folder: Path, proto: onnx.ModelProto) -> Path:
    (folder / "data").write_bytes(DATA.tobytes())
    path = folder / "m.onnx"
    path.write_bytes(proto.SerializeToString())
    return path


INLINE = {
    "negative sizes": (weight(dims=[-2]), r"sizes \[-2\]; one is negative"),
    "two negative sizes": (weight(dims=[-2, -3]), "one is negative"),
    "huge sizes": (weight(dims=[1 << 40]), "not 4,398,046,511,104"),
    "sizes beyond memory": (weight(dims=[1 << 62, 1 << 62]), "no memory has room for"),
    "empty and huge": (weight(dims=[0, 1 << 62, 1 << 62], raw_data=b""), "no memory has room for"),
    "too many axes": (weight(dims=[1] * 100), "has 100 axes"),
    "no data": (TensorProto(name="w", data_type=1, dims=[1 << 36]), "68,719,476,736"),
    "too short": (weight(raw_data=b"1234"), "4 elements of raw_data, not 24"),
    "too long": (weight(raw_data=b"1" * 28), "28 elements of raw_data, not 24"),
    "an unknown type": (weight(data_type=77), "data type 77, which ONNX does not define"),
    "no type": (weight(data_type=0), "data type 0"),
    "raw strings": (weight(data_type=TensorProto.STRING), "strings, which cannot be raw"),
    "too few strings": (TensorProto(name="w", data_type=8, dims=[2], string_data=[b"a"]), "1 elements of string_data, not 2"),
    "two kinds of data": (weight(int32_data=[1] * 6), "raw_data and int32_data"),
    "data of another type": (weight(raw_data=b"", int64_data=[1] * 6), "raw_data and int64_data|FLOAT and has int64_data"),
}  # fmt: skip


@pytest.mark.parametrize("where", ["graph", "attribute", "list", "subgraph", "function"])
@pytest.mark.parametrize("name", INLINE)
def test_tensors_that_contradict_themselves(name: str, where: str, tmp_path: Path) -> None:
    tensor, problem = INLINE[name]
    path = written(tmp_path, model(tensor) if where == "graph" else inside(tensor, where))
    with pytest.raises(OptionError, match=rf"m\.onnx: tensor 'w' .*({problem}).*; to fix this, "):
        read_model(path)


EXTERNAL: dict[str, tuple[TensorProto, str]] = {
    "missing": (external(location="none"), "there is no file"),
    "no location": (external(location=""), "is no regular file"),
    "a folder above": (external(location="../secret"), "leads out of the model's folder"),
    "a folder beside": (external(location="../folder2/secret"), "leads out"),
    "an absolute path": (external(location="/etc/hostname"), "leads out"),
    "a link": (external(location="link"), "leads out"),
    "a link in a circle": (external(location="circle"), "there is no file|no file is called|cannot be read"),
    "a hard link": (external(location="hard"), "hard link: copy the file"),
    "a pipe": (external(location="pipe"), "is no regular file"),
    "a device": (external(location="zero"), "leads out"),
    "a NUL": (external(location="a\0b"), "no file is called"),
    "a long name": (external(location="a" * 5000), "no file is called|cannot be read"),
    "too short": (external([7]), "bytes 0 to 28 of 'data', which has 24"),
    "an offset beyond": (external(offset=100), "bytes 100 to 124"),
    "a negative offset": (external(offset=-4), "offset '-4'"),
    "a negative length": (external(length=-24), "length '-24'"),
    "a wrong length": (external(length=20), "20 bytes for the sizes .6., which need 24"),
    "an offset of words": (external(offset="1e3"), "no numbers of bytes"),
    "an offset of 5,000 digits": (external(offset="1" * 5000), "no numbers of bytes"),
    "negative sizes": (external([-2]), "one is negative"),
    "huge sizes": (external([1 << 40]), "which has 24"),
    "strings": (external(dtype=TensorProto.STRING), "strings, which cannot be raw or external"),
    "raw data too": (weight(data_location=TensorProto.EXTERNAL), "external data and raw_data"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Provide a folder with links, beside a private file."""
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "folder2").mkdir()
    (tmp_path / "folder2" / "secret").write_text(SECRET)
    inner = tmp_path / "folder"
    inner.mkdir()
    (inner / "link").symlink_to(tmp_path / "secret")
    (inner / "circle").symlink_to("circle")
    (inner / "zero").symlink_to("/dev/zero")
    os.link(tmp_path / "secret", inner / "hard")
    os.mkfifo(inner / "pipe")
    return inner


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no pipes with names")
@pytest.mark.parametrize("where", ["graph", "attribute", "subgraph", "function"])
@pytest.mark.parametrize("name", EXTERNAL)
def test_external_data_that_cannot_be_read(name: str, where: str, folder: Path) -> None:
    tensor, problem = EXTERNAL[name]
    path = written(folder, model(tensor) if where == "graph" else inside(tensor, where))
    with pytest.raises(OptionError, match=rf"m\.onnx: tensor 'w' .*({problem})"):
        read_model(path)


def test_files_that_are_no_models(folder: Path) -> None:
    cases: dict[str, tuple[bytes, str]] = {
        "text": (b"no model", "is not an ONNX model: DecodeError"),
        "empty": (b"", "it has no graph"),
        "truncated": (model(weight()).SerializeToString()[:-20], "is not an ONNX model"),
        "nested": (b"", "is not an ONNX model"),
    }
    nested = b""
    for _ in range(200):  # GraphProto.node, NodeProto.attribute, AttributeProto.g
        for field in (6, 5, 1):
            nested = encoder.TagBytes(field, 2) + encoder._VarintBytes(len(nested)) + nested
    cases["nested"] = (encoder.TagBytes(7, 2) + encoder._VarintBytes(len(nested)) + nested, "is not an ONNX model: DecodeError")
    for contents, problem in cases.values():
        (folder / "m.onnx").write_bytes(contents)
        with pytest.raises(OptionError, match=rf"m\.onnx .*{problem}.*; to fix this, "):
            read_model(folder / "m.onnx")
    for name, problem in {
        "none": "there is no file",
        "pipe": "no regular file",
        "a\0b": "cannot be read",
        ".": "no regular file",
    }.items():
        with pytest.raises(OptionError, match=problem):
            read_model(folder / name)


def calling(name: str, called: str, times: int) -> onnx.FunctionProto:
    nodes = [helper.make_node(called, [f"v{index}"], [f"v{index + 1}"], domain="own") for index in range(times)]
    return helper.make_function("own", name, ["v0"], [f"v{times}"], nodes, [helper.make_opsetid("own", 1)])


def test_functions_that_never_end(tmp_path: Path) -> None:
    node = [helper.make_node("F0", ["x"], ["y"], domain="own")]
    circle = [calling("F0", "F1", 1), calling("F1", "F0", 1)]
    with pytest.raises(OptionError, match="functions call themselves .*'F0'.*; to fix this"):
        read_model(written(tmp_path, model(nodes=node, functions=circle)))
    many = [calling(f"F{index}", f"F{index + 1}", 2) for index in range(40)]
    with pytest.raises(OptionError, match=r"expand to [\d,]+ nodes from 81; to fix this"):
        read_model(written(tmp_path, model(nodes=node, functions=many)))
    few = [calling("F0", "F1", 2), helper.make_function("own", "F1", ["a"], ["b"], [helper.make_node("Relu", ["a"], ["b"])], [])]
    assert len(read_model(written(tmp_path, model(nodes=node, functions=few))).functions) == 2


@pytest.mark.parametrize("dtype", [each for each in ir.DataType if each not in (ir.DataType.UNDEFINED, ir.DataType.STRING)])
def test_every_type_is_read_as_it_was_written(dtype: ir.DataType, tmp_path: Path) -> None:
    size = -(-24 * dtype.bitwidth // 8)
    data = bytes(index % 251 for index in range(size)) if dtype != ir.DataType.BOOL else bytes([0, 1] * 12)
    data = bytes(size) if dtype.bitwidth == 6 else data  # not every byte is a value
    (tmp_path / "data").write_bytes(b"head" + data)
    inline = weight(data_type=dtype.value, dims=[4, 6], raw_data=data)
    outside = external([4, 6], dtype.value, offset=4, length=size)
    found = []
    for tensor in (inline, outside):
        (tmp_path / "m.onnx").write_bytes(model(tensor).SerializeToString())
        found.append(read_model(tmp_path / "m.onnx").graph.initializers["w"].const_value)
    assert all(each is not None and each.tobytes() == data and each.dtype == dtype for each in found)
    assert all(each is not None and list(each.shape) == [4, 6] and each.nbytes == size for each in found)


@pytest.mark.parametrize("where", ["graph", "attribute", "list", "subgraph", "function"])
def test_external_data_is_read(where: str, tmp_path: Path) -> None:
    tensor = external(location="./data", offset=0, length=24)
    read = read_model(written(tmp_path, model(tensor) if where == "graph" else inside(tensor, where)))
    (tmp_path / "data").unlink()
    save(read, tmp_path / "whole.onnx", WriteOptions(external_data=False))
    whole = (tmp_path / "whole.onnx").read_bytes()
    assert DATA.tobytes() in whole and b"./data" not in whole


def test_tied_weights_share_a_range_and_no_more(tmp_path: Path) -> None:
    data = np.zeros(1 << 20, np.uint8)
    count = 4

    def tied(number: int) -> Path:
        tensors = [external([1 << 20], TensorProto.UINT8, location="./" * index + "data") for index in range(number)]
        for index, tensor in enumerate(tensors):
            tensor.name = f"w{index}"
        path = written(tmp_path, model(*tensors, nodes=[helper.make_node("Identity", ["x"], ["y"])]))
        (tmp_path / "data").write_bytes(data.tobytes())
        return path

    assert len(read_model(tied(count)).graph.initializers) == count
    with pytest.raises(OptionError, match="together more than 4 times its bytes"):
        read_model(tied(count + 1))


def test_the_data_of_a_link_is_beside_its_target(tmp_path: Path) -> None:
    """The cache of huggingface_hub has such links."""
    (tmp_path / "blobs").mkdir()
    (tmp_path / "snapshot").mkdir()
    written(tmp_path / "blobs", model(external(location="m.onnx_data")))
    (tmp_path / "snapshot" / "m.onnx").symlink_to("../blobs/m.onnx")
    (tmp_path / "snapshot" / "m.onnx_data").symlink_to("../blobs/data")
    weights = read_model(tmp_path / "snapshot" / "m.onnx").graph.initializers["w"].const_value
    assert weights is not None and (weights.numpy() == DATA).all()


def test_a_model_in_memory_has_no_other_files() -> None:
    with pytest.raises(OptionError, match="the model: tensor 'w' has external data .* a model in memory has no folder"):
        read_model(model(external()).SerializeToString())


@pytest.mark.parametrize("change", [lambda tensor: tensor.dims.append(-2), lambda tensor: tensor.dims.extend([-2, -3])])
def test_negative_sizes_are_not_written(change: Callable[[TensorProto], None]) -> None:
    """protobuf's encoder never ends with a negative length."""
    from onnxexp._errors import SerializeError
    from onnxexp._serialize.proto_layout import lay_out

    tensor = external([])
    change(tensor)
    made = ir.from_proto(model(tensor))
    with pytest.raises(SerializeError, match="initializer 'w' has the sizes .*; to fix this"):
        lay_out(made)
