"""Export functions of libraries that train models: vision, reinforcement learning, tables, sentences."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, ClassVar

import torch

from tests.libraries.case import Cases, Exported

CASES = Cases("entry point")


@CASES("pytorch-lightning", "to_onnx by TorchScript at opset 13", {"dynamo": False, "opset_version": 13})
@CASES("pytorch-lightning", "to_onnx, the default", {})
def pytorch_lightning(folder: Path, options: dict[str, Any]) -> Exported:
    import pytorch_lightning

    class Forecaster(pytorch_lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.recurrent = torch.nn.LSTM(6, 8, num_layers=2, batch_first=True, bidirectional=True)
            self.head = torch.nn.Linear(16, 3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.recurrent(x)[0][:, -1])

    model, x, file = Forecaster(), torch.randn(2, 7, 6), folder / "model.onnx"
    model.to_onnx(str(file), x, export_params=True, **options)
    return Exported(file, model.eval(), [(x,)])


def _robots(observations: Any) -> Any:
    """Return an environment of four robots, each with three actions."""
    from rsl_rl.env import VecEnv

    class Robots(VecEnv):
        num_envs, num_actions, max_episode_length, device = 4, 3, 10, "cpu"
        cfg: ClassVar[dict[str, Any]] = {}
        episode_length_buf = torch.zeros(4, dtype=torch.int64)

        def get_observations(self) -> Any:
            return observations

        def step(self, actions: torch.Tensor) -> Any:
            return observations, torch.rand(4), torch.zeros(4), {}

    return Robots()


@CASES("rsl-rl-lib", "export_policy_to_onnx of an MLP", {"class_name": "MLPModel", "obs_normalization": True})
@CASES("rsl-rl-lib", "export_policy_to_onnx of a GRU", {"class_name": "RNNModel", "rnn_type": "gru", "rnn_hidden_dim": 16})
@CASES("rsl-rl-lib", "export_policy_to_onnx of an LSTM", {"class_name": "RNNModel", "rnn_type": "lstm", "rnn_hidden_dim": 16})
def rsl_rl(folder: Path, actor: dict[str, Any]) -> Exported:
    from rsl_rl.runners import OnPolicyRunner
    from tensordict import TensorDict

    noise = {"class_name": "GaussianDistribution", "init_std": 1.0}
    settings = {
        "algorithm": {"class_name": "PPO", "num_learning_epochs": 1, "num_mini_batches": 1},
        "actor": {**actor, "hidden_dims": [16, 16], "distribution_cfg": noise},
        "critic": {"class_name": "MLPModel", "hidden_dims": [16]},
        "obs_groups": {"actor": ["policy"], "critic": ["policy"]},
        "num_steps_per_env": 8,
        "save_interval": 10,
    }
    runner = OnPolicyRunner(_robots(TensorDict({"policy": torch.randn(4, 6)}, batch_size=[4])), settings, None, "cpu")
    runner.learn(1)
    runner.export_policy_to_onnx(str(folder), "policy.onnx")
    model = runner.alg.get_policy().as_onnx(verbose=False).eval()
    call = tuple(torch.rand_like(each) for each in model.get_dummy_inputs())
    return Exported(folder / "policy.onnx", model, [call])


@CASES("d3rlpy", "save_policy of SAC", "SACConfig", (6,))
@CASES("d3rlpy", "save_policy of TD3 with scalers", "TD3Config", (6,))
@CASES("d3rlpy", "save_policy of a discrete CQL on pixels", "DiscreteCQLConfig", (1, 84, 84))
def d3rlpy(folder: Path, name: str, shape: tuple[int, ...]) -> Exported:
    import d3rlpy
    import numpy as np

    random, steps, discrete = np.random.RandomState(0), 60, name.startswith("Discrete")
    pixels = (255 * random.rand(steps, *shape)).astype(np.uint8)
    actions = random.randint(0, 3, (steps, 1)) if discrete else random.rand(steps, 2).astype(np.float32)
    ends = (np.arange(steps) % 20 == 19).astype(np.float32)
    observations = pixels if discrete else pixels.astype(np.float32) / 255
    dataset = d3rlpy.dataset.MDPDataset(observations, actions, random.rand(steps, 1).astype(np.float32), ends)
    scalers: dict[str, Any] = {"observation_scaler": d3rlpy.preprocessing.PixelObservationScaler()} if discrete else {}
    if name == "TD3Config":
        scalers = {"observation_scaler": d3rlpy.preprocessing.StandardObservationScaler()}
        scalers["action_scaler"] = d3rlpy.preprocessing.MinMaxActionScaler()
    learner = getattr(d3rlpy.algos, name)(batch_size=8, **scalers).create(device="cpu")
    learner.fit(dataset, n_steps=4, n_steps_per_epoch=4, show_progress=False, logger_adapter=d3rlpy.logging.NoopAdapterFactory())
    file = folder / "policy.onnx"
    learner.save_policy(str(file))

    def eager(x: torch.Tensor) -> Any:
        return torch.from_numpy(learner.predict(x.numpy()))

    return Exported(file, eager, [(torch.from_numpy(observations[:1]).float(),)])


@CASES("segment-anything", "scripts/export_onnx_model.py", {})
@CASES("segment-anything", "scripts/export_onnx_model.py --return-single-mask", {"return_single_mask": True})
def segment_anything(folder: Path, options: dict[str, bool]) -> Exported:
    from segment_anything.build_sam import _build_sam
    from segment_anything.utils.onnx import SamOnnxModel

    sam = _build_sam(32, 1, 2, [0])
    model = SamOnnxModel(sam, **{"return_single_mask": False, **options})
    dim, size = sam.prompt_encoder.embed_dim, sam.prompt_encoder.image_embedding_size
    inputs = {
        "image_embeddings": torch.randn(1, dim, *size),
        "point_coords": torch.randint(0, 1024, (1, 5, 2)).float(),
        "point_labels": torch.randint(0, 4, (1, 5)).float(),
        "mask_input": torch.randn(1, 1, *[4 * each for each in size]),
        "has_mask_input": torch.tensor([1.0]),
        "orig_im_size": torch.tensor([1500.0, 2250.0]),
    }
    axes = {"point_coords": {1: "num_points"}, "point_labels": {1: "num_points"}}
    file = folder / "sam.onnx"
    with file.open("wb") as opened:
        torch.onnx.export(
            model,
            tuple(inputs.values()),
            opened,
            export_params=True,
            verbose=False,
            opset_version=17,
            do_constant_folding=True,
            input_names=list(inputs),
            output_names=["masks", "iou_predictions", "low_res_masks"],
            dynamic_axes=axes,
        )
    first = tuple(inputs.values())
    points = torch.randint(0, 1024, (1, 2, 2)).float(), torch.tensor([[1.0, -1.0]])
    return Exported(file, model, [first, (first[0], *points, *first[3:5], torch.tensor([200.0, 120.0]))])


@CASES("kornia", "EdgeDetector.to_onnx, the default", {})
@CASES("kornia", "EdgeDetector.to_onnx of any size", {"image_size": None})
@CASES("kornia", "EdgeDetector.to_onnx by TorchScript", {"image_size": None, "dynamo": False})
def kornia_edges(folder: Path, options: dict[str, Any]) -> Exported:
    from kornia.contrib.edge_detection import EdgeDetectorBuilder

    detector = EdgeDetectorBuilder.build("dexined", pretrained=False, image_size=64)
    file = folder / "edges.onnx"
    detector.to_onnx(str(file), **{"image_size": 96, **options})
    sizes = [(2, 3, 96, 96), *([(1, 3, 80, 112)] if options else [])]

    def eager(images: torch.Tensor) -> Any:
        return torch.cat(detector(images))

    return Exported(file, eager, [(torch.rand(size),) for size in sizes])


@CASES("kornia", "RTDETR.to_onnx, the default", {})
@CASES("kornia", "RTDETR.to_onnx by TorchScript", {"dynamo": False})
def kornia_rtdetr(folder: Path, options: dict[str, Any]) -> Exported:
    from kornia.models.rt_detr import RTDETR, RTDETRConfig

    config = RTDETRConfig("resnet18d", 5, input_size=64, head_num_queries=20, head_num_decoder_layers=2)
    model, file = RTDETR.from_config(config).eval(), folder / "detector.onnx"
    model.to_onnx(str(file), pseudo_shape=[1, 3, 64, 64], **options)
    return Exported(file, model, [(torch.rand(size, 3, 64, 64),) for size in (1, 3)])


@CASES("kornia", "ImageSequential.to_onnx")
def kornia_sequential(folder: Path) -> Exported:
    from kornia.color import RgbToGrayscale
    from kornia.core.module import ImageSequential
    from kornia.enhance import Normalize
    from kornia.filters import GaussianBlur2d, Sobel

    blur = GaussianBlur2d((3, 3), (1.5, 1.5))
    model = ImageSequential(blur, Normalize(torch.tensor([0.4]), torch.tensor([0.2])), RgbToGrayscale(), Sobel())
    file = folder / "filters.onnx"
    model.to_onnx(str(file))
    return Exported(file, model, [(torch.rand(size),) for size in ((2, 3, 32, 32), (1, 3, 20, 44))])


@CASES("yolov5", "export_onnx of yolov5n, dynamic and simplified", "yolov5n.yaml", True)
@CASES("yolov5", "export_onnx of yolov5n, static", "yolov5n.yaml", False)
@CASES("yolov5", "export_onnx of yolov5n-seg, dynamic and simplified", "segment/yolov5n-seg.yaml", True)
def yolov5(folder: Path, name: str, dynamic: bool) -> Exported:
    import yolov5
    from yolov5 import export
    from yolov5.models.yolo import Detect, DetectionModel, SegmentationModel

    kind = SegmentationModel if "seg" in name else DetectionModel
    model = kind(str(Path(yolov5.__file__).parent / "models" / name)).eval().fuse()
    for layer in model.modules():
        if isinstance(layer, Detect):
            layer.inplace, layer.dynamic, layer.export = False, dynamic, True
    x = torch.zeros(1, 3, 64, 96)
    model(x)
    path: Any = export.export_onnx(model, x, folder / "yolo.pt", opset=12, dynamic=dynamic, simplify=dynamic)[0]
    if path is None:
        raise ValueError("yolov5 has caught and printed an error")
    sizes = [(1, 3, 64, 96), *([(2, 3, 96, 64)] if dynamic else [])]
    return Exported(Path(path), model, [(torch.rand(size),) for size in sizes])


@CASES("easyocr", "export_detector's recipe for CRAFT, static", None)
@CASES("easyocr", "export_detector's recipe for CRAFT, dynamic", {"input": {0: "batch_size", 2: "height", 3: "width"}})
def easyocr(folder: Path, axes: dict[str, Any] | None) -> Exported:
    from easyocr.craft import CRAFT

    model, x, file = CRAFT(pretrained=False).eval(), torch.rand(1, 3, 64, 96), folder / "craft.onnx"
    named: dict[str, Any] = {"input_names": ["input"], "output_names": ["output"], "verbose": False}
    if axes:
        named["dynamic_axes"] = {**axes, "output": {0: "batch_size", 1: "dim1", 2: "dim2"}}
    with torch.no_grad():
        torch.onnx.export(model, x, str(file), export_params=True, do_constant_folding=True, opset_version=12, **named)
    sizes = [(1, 3, 64, 96), *([(2, 3, 96, 128)] if axes else [])]
    return Exported(file, model, [(torch.rand(size),) for size in sizes])


@CASES("darts", "to_onnx of NBEATS", "NBEATSModel", {"num_stacks": 2, "num_blocks": 1, "num_layers": 2, "layer_widths": 16})
@CASES("darts", "to_onnx of a TCN", "TCNModel", {"kernel_size": 3, "num_filters": 4, "output_chunk_length": 2})
@CASES("darts", "to_onnx of an LSTM", "RNNModel", {"model": "LSTM", "hidden_dim": 8, "training_length": 10})
@CASES("darts", "to_onnx of TiDE", "TiDEModel", {"hidden_size": 16})
@CASES("darts", "to_onnx of TFT", "TFTModel", {"hidden_size": 8, "add_relative_index": True})
def darts(folder: Path, name: str, options: dict[str, Any]) -> Exported:
    import numpy as np
    from darts import TimeSeries, models
    from darts.utils.onnx.export import _onnx_dummy_input

    series = TimeSeries.from_values(np.sin(np.arange(60, dtype=np.float32)).reshape(-1, 1))
    quiet = {"accelerator": "cpu", "enable_progress_bar": False, "logger": False, "enable_model_summary": False}
    lengths = {"input_chunk_length": 8} if name == "RNNModel" else {"input_chunk_length": 8, "output_chunk_length": 4}
    learner = getattr(models, name)(**{**lengths, **options}, n_epochs=1, pl_trainer_kwargs=quiet, random_state=0)
    learner.fit(series, verbose=False)
    file = folder / "model.onnx"
    learner.to_onnx(str(file))
    module = learner.model.eval()
    bundle = module._onnx_wrapper(_onnx_dummy_input(module))
    return Exported(file, bundle.wrapper, [bundle.example_inputs])


@CASES("pytorch-tabular", "save_model_for_inference of CategoryEmbedding", "CategoryEmbeddingModelConfig", {"layers": "16-8"})
@CASES("pytorch-tabular", "save_model_for_inference of GANDALF", "GANDALFConfig", {"gflu_stages": 2})
@CASES("pytorch-tabular", "save_model_for_inference of FT-Transformer", "FTTransformerConfig", {"input_embed_dim": 16})
def pytorch_tabular(folder: Path, name: str, options: dict[str, Any]) -> Exported:
    import numpy as np
    import pandas
    from omegaconf import OmegaConf
    from pytorch_tabular import TabularModel, models
    from pytorch_tabular.config import DataConfig, OptimizerConfig, TrainerConfig

    random = np.random.RandomState(0)
    table = pandas.DataFrame(random.rand(64, 3).astype(np.float32), columns=["a", "b", "c"])
    table["kind"], table["label"] = random.choice(["x", "y", "z"], 64), random.randint(0, 2, 64)
    data = DataConfig(target=["label"], continuous_cols=["a", "b", "c"], categorical_cols=["kind"])
    quiet: dict[str, Any] = {"progress_bar": "none", "checkpoints": None, "early_stopping": None, "load_best": False}
    trainer = TrainerConfig(batch_size=16, max_epochs=1, accelerator="cpu", **quiet)
    parts = (data, getattr(models, name)(task="classification", **options), trainer, OptimizerConfig())
    learner = TabularModel(config=OmegaConf.merge(*(OmegaConf.create(dataclasses.asdict(part)) for part in parts)))
    learner.fit(train=table)
    file = folder / "model.onnx"
    model = learner.model.eval()
    learner.save_model_for_inference(file, kind="onnx")
    x = {"continuous": torch.randn(16, 3), "categorical": torch.randint(0, 3, (16, 1), dtype=torch.int32)}

    def eager(given: Any) -> Any:
        return tuple(model(given).values())

    return Exported(file, eager, [(x,)])


def _sentence_body(folder: Path) -> Any:
    """Make a SentenceTransformer of a tiny BERT and of a tokenizer with few words."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.models import Pooling, Transformer
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import BertConfig, BertModel, BertTokenizerFast

    text = "[PAD] [UNK] [CLS] [SEP] [MASK] it ' s a test . good bad"
    words = {word: index for index, word in enumerate(text.split())}
    tokenizer = Tokenizer(models.WordLevel(words, "[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    BertTokenizerFast(tokenizer_object=tokenizer).save_pretrained(folder)
    sizes: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
    BertModel(BertConfig(vocab_size=20, **sizes)).save_pretrained(folder)
    transformer = Transformer(str(folder), max_seq_length=16)
    return SentenceTransformer(modules=[transformer, Pooling(32, pooling_mode="mean")], device="cpu")


@CASES("setfit", "export_onnx with a head of torch", "torch", 14)
@CASES("setfit", "export_onnx with scikit-learn's head", "sklearn", 14)
@CASES("setfit", "export_onnx with Hummingbird's head", "hummingbird", 14)
def setfit(folder: Path, kind: str, opset: int) -> Exported:
    from setfit import SetFitHead
    from setfit.exporters.onnx import OnnxSetFitModel, export_onnx
    from sklearn.linear_model import LogisticRegression

    body, file = _sentence_body(folder / "body").eval(), folder / "model.onnx"
    vectors = body.encode(["it's a test.", "good", "bad", "a bad test"])
    head: Any = SetFitHead(32, 2).eval() if kind == "torch" else LogisticRegression().fit(vectors, [0, 1, 0, 1])
    export_onnx(body, head, opset=opset, output_path=str(file), use_hummingbird=kind == "hummingbird")
    pooled = OnnxSetFitModel(body[0].auto_model, lambda x: body[1](x)["sentence_embedding"]).eval()

    def eager(*inputs: torch.Tensor) -> Any:
        embedded = pooled(*inputs)
        if kind == "torch":
            return head(embedded)
        return torch.from_numpy(head.predict(embedded.numpy())), torch.from_numpy(head.predict_proba(embedded.numpy()))

    texts = (["it's a test."], ["good", "a bad test.", "it"])
    calls = [body.tokenizer(each, padding=True, return_tensors="pt", return_token_type_ids=True) for each in texts]
    return Exported(file, eager, [(each["input_ids"], each["attention_mask"], each["token_type_ids"]) for each in calls])


@CASES("anomalib", "Padim.to_onnx")
def anomalib(folder: Path) -> Exported:
    """Export a detector of anomalies that has seen random images."""
    from anomalib.models import Padim

    detector, size = Padim(pre_trained=False, n_features=16, evaluator=False, visualizer=False), (64, 64)
    detector.pre_processor.export_transform = None  # it resizes to 256 pixels
    detector.model.train()
    with torch.no_grad():
        detector.model(torch.rand(12, 3, *size))
    detector.model.fit()
    file = detector.eval().to_onnx(folder, input_size=size)

    def eager(x: torch.Tensor) -> Any:
        return [value for value in detector(x) if value is not None]

    return Exported(file, eager, [(torch.rand(count, 3, *size),) for count in (1, 3)])
