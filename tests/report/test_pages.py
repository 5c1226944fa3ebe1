"""Pages of models in a real browser: drawing, search, counterparts, error colours."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import torch

import onnxexp
from tests.checking import networks
from tests.report.browser import colour_at, needs_browser, opened, settled, view

pytestmark = needs_browser


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the page of a BERT whose gelu is wrong."""
    table = onnxexp.SymbolicTable("aten", override=True)

    @table("gelu")
    def relu_instead(op: Any, x: Any, approximate: str) -> Any:
        return op.Relu(x)

    torch.manual_seed(0)
    program = networks.quietly_exported(*networks.bert(), plugins=[table, ...])
    path = tmp_path_factory.mktemp("report") / "bert.html"
    program.report(path, mismatch=True, profile=True, warnings=["a <b>warning</b>"])
    return path


@pytest.fixture(scope="module")
def resnet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("report") / "resnet.html"
    networks.quietly_exported(*networks.resnet()).report(path)
    return path


def test_a_fault_is_selected_and_coloured(faulty: Path) -> None:
    with opened(faulty) as page:
        page.wait_for_selector(".details h2")
        settled(page)
        assert page.inner_text(".details h2") == "Relu"
        assert "differs from torch by itself" in page.inner_text(".details") and "relu_instead" in page.inner_text(".details")
        fault = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--fault')").strip()
        assert colour_at(page, "onnx", "Relu") == ",".join(str(int(fault[at : at + 2], 16)) for at in (1, 3, 5))
        page.click(".mode")
        settled(page)
        assert colour_at(page, "onnx", "Relu") != ",".join(str(int(fault[at : at + 2], 16)) for at in (1, 3, 5))


def test_search_and_counterpart(faulty: Path) -> None:
    with opened(faulty) as page:
        page.click("#tab-Graph")
        page.keyboard.press("/")
        page.keyboard.type("tanh")
        assert page.locator("#found li").count() == 2  # one in each graph
        page.keyboard.press("Enter")
        settled(page)
        assert page.inner_text(".details h2") == "Tanh" and view(page, "onnx", "view.selected.label") == "Tanh"
        page.get_by_role("button", name="torch graph beside").click()
        settled(page)
        marked = view(page, "torch", "[...view.marked].map((row) => view.graph.nodes[row].name)")
        assert marked == ["tanh"]
        page.get_by_role("button", name="tanh  %tanh").click()
        settled(page)
        assert page.inner_text(".details h2") == "aten::tanh" and "modeling_bert.py" in page.inner_text(".details")
        assert view(page, "onnx", "[...view.marked].map((row) => view.graph.nodes[row].label)") == ["Tanh"]


def test_a_click_opens_modules_and_selects_nodes(resnet: Path) -> None:
    with opened(resnet) as page:
        page.click("#tab-Graph")
        settled(page)
        page.get_by_role("button", name="close all").click()
        settled(page)
        few = view(page, "onnx", "view.drawn")
        x, y = view(page, "onnx", """(() => {
            const [, place] = [...view.places].find(([item]) => item.label === 'stem');
            const bounds = view.canvas.getBoundingClientRect();
            const [x, y] = view.transform.apply([place.x + 20, place.y + 10]);
            return [x + bounds.left, y + bounds.top]; })()""")  # fmt: skip
        page.mouse.click(x, y)
        settled(page)
        assert view(page, "onnx", "view.drawn") == few + 1 and view(page, "onnx", "view.selected.label") == "stem"
        page.keyboard.press("ArrowDown")
        settled(page)
        assert view(page, "onnx", "view.selected.label") == "Conv" and page.inner_text(".details h2") == "Conv"
        assert "aten::conv2d" in page.inner_text(".details") and page.locator(".weight svg").count() == 2


def test_tables_sort_and_filter(faulty: Path) -> None:
    with opened(faulty) as page:
        page.click("#tab-Operators")
        page.wait_for_selector(".tabulator-row")
        counts = page.locator(".tabulator").first.locator('.tabulator-row [tabulator-field="count"]')
        numbers = [int(text) for text in counts.all_inner_texts()]
        assert numbers == sorted(numbers, reverse=True)
        page.locator(".tabulator").first.locator('[tabulator-field="operator"] input').press_sequentially("MatMul")
        page.wait_for_function("document.querySelector('.tabulator').querySelectorAll('.tabulator-row').length === 1")
        page.click("#tab-Weights")
        page.locator(".tabulator-row").first.click()
        page.wait_for_selector(".one svg")
        page.click("#tab-Errors")
        page.wait_for_selector(".errors svg")
        page.click("#tab-Time")
        page.wait_for_selector(".time .tabulator-row")


def test_text_of_the_model_is_never_markup(faulty: Path) -> None:
    with opened(faulty) as page:
        page.click("#tab-Overview")
        assert "a <b>warning</b>" in page.inner_text(".warnings") and page.locator(".warnings b").count() == 0


def test_operators_without_symbolics(tmp_path: Path) -> None:
    with torch.library._scoped_library("reportedops", "DEF") as library:
        library.define("odd(Tensor x) -> Tensor")
        library.impl("odd", lambda x: x * 2, "CompositeExplicitAutograd")
        program = networks.quietly_exported(
            lambda x: torch.ops.reportedops.odd(x.sin()), {"x": torch.ones(2)}, operator_export_type="ONNX_FALLTHROUGH"
        )
        program.report(path := tmp_path / "odd.html", problems=["reportedops::odd (1x): write a symbolic for it"])
    with opened(path) as page:
        assert "write a symbolic for it" in page.inner_text(".verdict.fault")
        page.get_by_role("button", name="show the first in the graph").click()
        settled(page)
        assert page.inner_text(".details h2") == "reportedops::odd" and "no plugin lowers it" in page.inner_text(".details")
        fault = page.evaluate("getComputedStyle(document.documentElement).getPropertyValue('--fault')").strip()
        assert colour_at(page, "torch", "reportedops::odd") == ",".join(str(int(fault[at : at + 2], 16)) for at in (1, 3, 5))


def test_the_picture_stays_in_view_beside_another(resnet: Path) -> None:
    with opened(resnet) as page:
        page.click("#tab-Graph")
        settled(page)
        centre = "(view.transform.x + view.transform.k * view.box.width / 2) / view.width"
        before = view(page, "onnx", centre)
        page.get_by_role("button", name="torch graph beside").click()
        settled(page)
        assert abs(view(page, "onnx", centre) - before) < 0.05


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 400])
def test_nothing_is_wider_than_the_window(faulty: Path, width: int, scheme: str) -> None:
    with opened(faulty, width=width, scheme=scheme) as page:
        for tab in ("Overview", "Graph", "Errors", "Operators", "Weights", "Time"):
            page.click(f"#tab-{tab}")
            settled(page)
            assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth"), tab
            assert page.evaluate("document.documentElement.dataset.theme") == scheme


class Deep(torch.nn.Module):
    """Ten thousand nodes in a hundred modules."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Identity() for _ in range(100))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
            for _ in range(50):
                x = torch.sin(x)
                x = torch.tanh(x)
        return x


@pytest.mark.full  # the export of 10,000 nodes takes 20 seconds
def test_ten_thousand_nodes(tmp_path: Path) -> None:
    onnxexp.export(Deep(), (torch.randn(2, 4),)).report(path := tmp_path / "deep.html")
    begin = time.perf_counter()
    with opened(path) as page:
        page.click("#tab-Graph")
        settled(page)
        page.get_by_role("button", name="open all").click()
        settled(page)
        assert view(page, "onnx", "view.places.size") > 10_000 and view(page, "onnx", "view.drawn") < 2_000
        page.keyboard.press("/")
        page.keyboard.type("tanh_4321")
        page.keyboard.press("Enter")
        settled(page)
        assert view(page, "onnx", "view.selected.name") != "" and time.perf_counter() - begin < 60
