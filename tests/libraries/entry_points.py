"""Libraries' own functions that export, called as their documentation says."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import torch

from tests.libraries.case import Cases, Exported

CASES = Cases("entry point")


@CASES("ultralytics", "yolo11n, dynamic and simplified", "yolo11n.yaml", {"dynamic": True})
@CASES("ultralytics", "yolo11n-seg, dynamic and simplified", "yolo11n-seg.yaml", {"dynamic": True})
@CASES("ultralytics", "yolo26n, dynamic and simplified", "yolo26n.yaml", {"dynamic": True})
@CASES("ultralytics", "yolov8n-pose, static", "yolov8n-pose.yaml", {})
@CASES("ultralytics", "yolo11n, not simplified", "yolo11n.yaml", {"dynamic": True, "simplify": False})
def ultralytics(folder: Path, name: str, options: dict[str, Any]) -> Exported:
    from ultralytics import YOLO

    detector = YOLO(name, verbose=False)
    file = Path(detector.export(format="onnx", imgsz=96, verbose=False, **options))
    exported = detector.model.eval()
    for layer in exported.modules():
        if hasattr(layer, "export"):
            layer.export, layer.format = True, "onnx"
    sizes = [(1, 3, 96, 96), *([(2, 3, 64, 128)] if "dynamic" in options else [])]
    return Exported(file, exported.fuse(verbose=False), [(torch.rand(size),) for size in sizes])


@CASES("timm", "onnx_export by TorchScript", False)
@CASES("timm", "onnx_export by Dynamo", True)
def timm(folder: Path, dynamo: bool) -> Exported:
    import timm.utils.onnx

    model = timm.create_model("mobilenetv3_small_050", exportable=True).eval()
    file = folder / "model.onnx"
    x = torch.randn(2, 3, 64, 64)
    timm.utils.onnx.onnx_export(model, str(file), example_input=x, dynamic_size=True, use_dynamo=dynamo, check=True)
    return Exported(file, model, [(x,), (torch.randn(2, 3, 96, 64),)])


def _lightning_module() -> Any:
    import lightning

    class Classifier(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
            self.example_input_array = torch.randn(4, 6)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.layers(x.flatten(1))

    return Classifier().eval()


@CASES("lightning", "to_onnx to a path", {})
@CASES("lightning", "to_onnx by TorchScript", {"dynamo": False, "dynamic_axes": {"input": [0]}, "input_names": ["input"]})
@CASES("lightning", "to_onnx by Dynamo", {"dynamo": True, "dynamic_shapes": ({0: "batch"},)})
def lightning(folder: Path, options: dict[str, Any]) -> Exported:
    model, file = _lightning_module(), folder / "model.onnx"
    program = model.to_onnx(file_path=str(file), **options)
    if program is not None and options.get("dynamo"):
        program.optimize()
        program.save(file)
    sizes = [4, *([9] if options else [])]
    return Exported(file, model, [(torch.randn(size, 6),) for size in sizes])


@CASES("lightning", "to_onnx to a buffer")
def lightning_buffer(folder: Path) -> Exported:
    model, buffer, file = _lightning_module(), io.BytesIO(), folder / "model.onnx"
    model.to_onnx(buffer)
    file.write_bytes(buffer.getvalue())
    return Exported(file, model, [(torch.randn(4, 6),)])


@CASES("monai", "convert_to_onnx of a 3D UNet", False)
@CASES("monai", "convert_to_onnx of SegResNet", True)
def monai(folder: Path, residual: bool) -> Exported:
    from monai.networks.nets import SegResNet, UNet
    from monai.networks.utils import convert_to_onnx

    model: Any = SegResNet(spatial_dims=2, init_filters=8) if residual else UNet(3, 1, 2, (4, 8, 16), (2, 2))
    x = torch.randn((1, 1, 32, 32) if residual else (1, 1, 16, 16, 16))
    file = folder / "model.onnx"
    convert_to_onnx(model.eval(), [x], filename=str(file), opset_version=17 if residual else None, verify=False)
    return Exported(file, model, [(x,)])


@CASES("torch_geometric", "safe_onnx_export")
def torch_geometric(folder: Path) -> Exported:
    from torch_geometric.nn import SAGEConv

    try:
        from torch_geometric import safe_onnx_export
    except ImportError:
        from torch_geometric._onnx import safe_onnx_export

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.one, self.two = SAGEConv(8, 16), SAGEConv(16, 4)

        def forward(self, x: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
            return self.two(self.one(x, edges).relu(), edges)

    model, file = Net().eval(), folder / "model.onnx"
    call = torch.randn(5, 8), torch.randint(0, 5, (2, 12))
    safe_onnx_export(model, call, str(file), input_names=["x", "edges"], opset_version=18)
    return Exported(file, model, [call])


@CASES("brevitas", "export_onnx_qcdq by TorchScript", {"dynamo": False, "opset_version": 13})
@CASES("brevitas", "export_onnx_qcdq, the default", {})
def brevitas(folder: Path, options: dict[str, Any]) -> Exported:
    from brevitas.export import export_onnx_qcdq
    from brevitas.nn import QuantLinear, QuantReLU
    from brevitas.quant import Int8ActPerTensorFloat

    layers = [QuantLinear(6, 8, True, input_quant=Int8ActPerTensorFloat), QuantReLU(), QuantLinear(8, 3, True)]
    model, file = torch.nn.Sequential(*layers), folder / "model.onnx"
    x = torch.randn(4, 6)
    model(x)
    model.eval()
    export_onnx_qcdq(model, args=x, export_path=str(file), **options)
    return Exported(file, model, [(x,)])


@CASES("pytorch-pfn-extras", "export_testcase")
def pfn_extras(folder: Path) -> Exported:
    from pytorch_pfn_extras.onnx import export_testcase

    model, x = torch.nn.Sequential(torch.nn.Linear(6, 3), torch.nn.ReLU()).eval(), torch.randn(4, 6)
    export_testcase(model, (x,), str(folder / "case"), opset_version=18)
    return Exported(folder / "case" / "model.onnx", model, [(x,)])


@CASES("hummingbird-ml", "a random forest", False)
@CASES("hummingbird-ml", "a pipeline", True)
def hummingbird(folder: Path, scaled: bool) -> Exported:
    import numpy as np
    from hummingbird.ml import convert
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    x = np.random.RandomState(0).rand(50, 6).astype(np.float32)
    y = (x.sum(1) > 3).astype(int)
    estimator: Any = make_pipeline(StandardScaler(), LogisticRegression()) if scaled else RandomForestClassifier(8, max_depth=5)
    converted: Any = convert(estimator.fit(x, y), "onnx", x)
    file = folder / "model.onnx"
    file.write_bytes(converted.model.SerializeToString())

    def eager(given: torch.Tensor) -> Any:
        return torch.from_numpy(estimator.predict(given.numpy())), torch.from_numpy(estimator.predict_proba(given.numpy()))

    return Exported(file, eager, [(torch.from_numpy(x),), (torch.from_numpy(x[:7]),)])


@CASES("stable-baselines3", "the documented recipe for PPO", "PPO")
@CASES("stable-baselines3", "the documented recipe for SAC", "SAC")
def stable_baselines(folder: Path, name: str) -> Exported:
    import gymnasium
    import stable_baselines3

    learner: Any = getattr(stable_baselines3, name)("MlpPolicy", gymnasium.make("Pendulum-v1"))

    class Policy(torch.nn.Module):
        def __init__(self, policy: Any) -> None:
            super().__init__()
            self.policy = policy

        def forward(self, observation: torch.Tensor) -> Any:
            if name == "SAC":
                return self.policy.actor(observation, deterministic=True)
            return self.policy(observation, deterministic=True)

    model, file = Policy(learner.policy.to("cpu")).eval(), folder / "model.onnx"
    x = torch.randn(1, *learner.observation_space.shape)
    torch.onnx.export(model, x, str(file), opset_version=17, input_names=["input"])
    return Exported(file, model, [(x,)])


@CASES("tensordict", "a module with keyword arguments")
def tensordict(folder: Path) -> Exported:
    from tensordict.nn import TensorDictModule, TensorDictSequential

    inner = TensorDictModule(torch.nn.Linear(6, 4), in_keys=["x"], out_keys=["hidden"])
    model = TensorDictSequential(inner, TensorDictModule(torch.nn.Tanh(), in_keys=["hidden"], out_keys=["y"])).eval()
    x, file = torch.randn(3, 6), folder / "model.onnx"
    torch.onnx.export(model, (), kwargs={"x": x}, dynamo=True).save(str(file))
    return Exported(file, lambda x: model(x=x), [(x,)])


@CASES("lightly", "a SimCLR model through torch.onnx.export")
def lightly(folder: Path) -> Exported:
    from lightly.models.modules import SimCLRProjectionHead

    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(48, 16), SimCLRProjectionHead(16, 16, 8)).eval()
    x, file = torch.randn(2, 3, 4, 4), folder / "model.onnx"
    torch.onnx.export(model, x, str(file), input_names=["x"], dynamic_axes={"x": {0: "n"}}, dynamo=False)
    return Exported(file, model, [(x,), (torch.randn(5, 3, 4, 4),)])


@CASES("python-doctr", "a CRNN", "crnn_mobilenet_v3_small", (32, 128), {"vocab": "abc"})
@CASES("python-doctr", "PARSeq", "parseq", (32, 128), {"vocab": "abc"})
@CASES("python-doctr", "DBNet", "db_resnet34", (256, 256), {})
def doctr(folder: Path, name: str, size: tuple[int, int], options: dict[str, Any]) -> Exported:
    from doctr import models
    from doctr.models.utils import export_model_to_onnx

    group = models.detection if name.startswith("db") else models.recognition
    model = getattr(group, name)(pretrained=False, pretrained_backbone=False, exportable=True, **options).eval()
    x = torch.rand(1, 3, *size)
    path = export_model_to_onnx(model, str(folder / name), dummy_input=x)

    def eager(given: torch.Tensor) -> Any:
        return model(given)["logits"]

    return Exported(Path(path), eager, [(x,), (torch.rand(3, 3, *size),)])


@CASES("rfdetr", "RFDETRNano.export")
def rfdetr(folder: Path) -> Exported:
    from rfdetr import RFDETRNano

    detector = RFDETRNano(pretrain_weights=None, device="cpu")
    detector.export(output_dir=str(folder))
    model = detector.model.model.to("cpu").eval()
    model.export()
    size = detector.model.resolution
    return Exported(next(folder.rglob("*.onnx")), model, [(torch.rand(1, 3, size, size),)])


@CASES("transformers", "OnnxExporter of BERT", "Bert", "BertModel")
@CASES("transformers", "OnnxExporter of LLaMA", "Llama", "LlamaForCausalLM")
def transformers(folder: Path, family: str, name: str) -> Exported:
    import transformers
    from transformers.exporters import OnnxConfig, OnnxExporter

    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 100}
    config = getattr(transformers, f"{family}Config")(**sizes, use_cache=False)
    model = getattr(transformers, name)(config).eval()
    calls = [(torch.randint(0, 100, size), torch.ones(size, dtype=torch.int64)) for size in ((2, 7), (3, 5))]
    sample = dict(zip(("input_ids", "attention_mask"), calls[0], strict=True))
    OnnxExporter().export(model, sample, config=OnnxConfig(dynamic=True)).save_pretrained(str(folder))

    def eager(ids: torch.Tensor, mask: torch.Tensor) -> Any:
        return tuple(model(input_ids=ids, attention_mask=mask).values())

    return Exported(next(folder.glob("*.onnx")), eager, calls)


@CASES("gliner", "export_to_onnx")
def gliner(folder: Path) -> Exported:
    from gliner import GLiNER, GLiNERConfig
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, PreTrainedTokenizerFast

    encoder, words = folder / "encoder", "[PAD] [UNK] [CLS] [SEP] [MASK] model export dummy input person country a b c d e f"
    special = {f"{name}_token": f"[{name.upper()}]" for name in ("pad", "unk", "cls", "sep", "mask")}
    vocabulary = {word: index for index, word in enumerate(words.split())}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token=special["unk_token"]))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(encoder)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 40}
    BertConfig(**sizes).save_pretrained(encoder)
    config = GLiNERConfig(model_name=str(encoder), hidden_size=32, max_width=4, span_mode="markerV0")
    detector = GLiNER.from_config(config, backbone_from_pretrained=False)
    batches = [detector._prepare_export_graph(text=text)[:2] for text in ("a b c d e", "b c d e f a b c")]
    file = Path(detector.export_to_onnx(str(folder / "exported"))["onnx_path"])
    return Exported(file, batches[0][0], [inputs for _, inputs in batches])
