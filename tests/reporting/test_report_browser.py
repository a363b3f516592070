"""The report in a real browser: controls work, nothing loads, nothing fails."""

import shutil
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.linear_model import Ridge

from sltr.core.tensor import cp_to_tensor
from sltr.estimators.fitted import linear_scores
from sltr.inference import Patterns, Stability
from sltr.reporting import report
from sltr.samples.check import check_samples
from sltr.tuning.choose import cv_table

pytest.importorskip("jinja2")

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
    None,
)
CHROMEDRIVER = shutil.which("chromedriver")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        not (CHROMIUM and CHROMEDRIVER), reason="no Chromium with chromedriver found"
    ),
]

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1200,900",
)
EVIL = "</title><script>window.evil = 1</script><img src=x onerror='evil = 1'>"


class Tuned(RegressorMixin, BaseEstimator):
    """A planted coefficient with the fitted attributes of a CV model."""

    def __init__(self, tol=1e-4):
        self.tol = tol

    def fit(self, X, y):
        shape = check_samples(self, X, y).shape
        rng = np.random.default_rng(2)
        self.coef_ = cp_to_tensor([rng.standard_normal((size, 2)) for size in shape])
        self.intercept_, self.n_iter_ = 0.0, 30
        self.objective_path_ = np.exp(-np.arange(30.0) / 3)
        self.dual_gap_ = 6e-5
        grid = [
            (e, a, b) for e in (0.1, 1.0) for a in (0.0, 0.2, 0.9) for b in (0.1, 0.5)
        ]
        names = ("epsilon", "lambda_sparse", "lambda_low")
        columns = dict(zip(names, map(list, zip(*grid, strict=True)), strict=True))
        self.cv_results_ = cv_table(columns, rng.standard_normal((3, len(grid))))
        best = self.cv_results_["params"][
            int(np.argmax(self.cv_results_["mean_test_score"]))
        ]
        for name, value in best.items():
            setattr(self, f"{name}_", value)
        return self

    def predict(self, X):
        return linear_scores(self, X)


class TunedRefined(Tuned):
    """The same with a refinement whose `lambda_sparse` is another thing."""

    def fit(self, X, y):
        super().fit(X, y)
        radii = [("scale", a, b) for a in (0.0, 0.3, 1.0) for b in (0.0, 1.0)]
        thresholds = [("sparse", a, 0.0) for a in (0.1, 0.18, 0.27, 0.4, 0.6, 0.8)]
        names = ("refine", "lambda_sparse", "lambda_low")
        rows = zip(*radii, *thresholds, strict=True)
        columns = dict(zip(names, map(list, rows), strict=True))
        scores = np.repeat([[2, 3, 6, 5, 4, 1, 0, 0, 0, 0, 0, 0]], 2, axis=0)
        self.cv_results_ = cv_table(columns, scores / 10.0)
        self.best_index_ = 2
        return self


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Reports of several orders, by name."""
    folder, rng = tmp_path_factory.mktemp("reports"), np.random.default_rng(0)
    shapes = {"one": (30,), "two": (9, 12), "three": (10, 8, 5), "four": (8, 7, 4, 3)}
    found = {}
    for name, shape in shapes.items():
        X, y = rng.standard_normal((40, *shape)), rng.standard_normal(40)
        model = Tuned().fit(X, y)
        scales = np.linspace(0.1, 1.0, 6)
        path = (scales, np.stack([model.coef_ * (1 - s) for s in scales]))
        found[name] = report(
            model,
            X,
            y,
            folder / f"{name}.html",
            title=EVIL,
            coef_path=path if name == "three" else None,
            mode_names=[f"axis {c}" for c in "abcd"[: len(shape)]],
            n_bootstrap=20,
        )
    X, y = rng.standard_normal((40, 8, 41, 3)), rng.standard_normal(40)
    found["refined"] = report(
        TunedRefined().fit(X, y),
        X,
        y,
        folder / "refined.html",
        mode_names=("channel", "time", "trial"),
        units=(None, "ms", None),
        coords={
            "channel": [f"long name {c}" for c in "abcdefgh"],
            "time": np.linspace(-100, 300, 41),
            "trial": [2, 3, 7],
        },
        n_bootstrap=20,
    )
    X, y = rng.standard_normal((40, 8, 7, 3)), rng.standard_normal(40)
    model = Tuned().fit(X, y)
    found["maps"] = report(
        model,
        X,
        y,
        folder / "maps.html",
        X_test=X[:5],
        y_test=y[:5],
        patterns=Patterns(10.0 * np.abs(model.coef_), 1.0),
        stability=Stability(np.ones((8, 7, 3)), model.coef_ > 0, 0.7, 9, 9.0, 1, 2, 4),
        intervals=SimpleNamespace(predict=lambda X, level: (y[:5] - 1, y[:5] + 1)),
        n_bootstrap=20,
    )
    X = rng.standard_normal((30, 6))
    found["plain"] = report(Ridge().fit(X, X[:, 0]), X, X[:, 0], folder / "plain.html")
    return found


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    webdriver = pytest.importorskip("selenium.webdriver")
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in FLAGS:
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    found = webdriver.Chrome(options=options, service=Service(CHROMEDRIVER))
    yield found
    found.quit()


@pytest.fixture
def page(driver, pages):
    """Open a report by name; afterwards, it has neither failed nor loaded anything."""

    def run(script, *arguments):
        return driver.execute_script(script, *arguments)

    def find(selector):
        return driver.find_element("css selector", selector)

    def opened(name, *, width=1200, dark=False):
        metrics = {"width": width, "height": 900, "deviceScaleFactor": 1}
        driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride", {**metrics, "mobile": width < 600}
        )
        media = {"prefers-color-scheme": "dark" if dark else "light"}
        media["prefers-reduced-motion"] = "reduce"  # a click must not chase a scroll
        features = [{"name": key, "value": value} for key, value in media.items()]
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
        driver.get(pages[name].as_uri())
        return SimpleNamespace(
            run=run,
            find=find,
            picture=lambda: run("return document.getElementById('slice').toDataURL()"),
            slide=lambda selector, value: run(
                "const i = document.querySelector(arguments[0]);"
                "i.value = arguments[1]; i.dispatchEvent(new Event('input'));",
                selector,
                value,
            ),
            count=lambda css: run(
                "return document.querySelectorAll(arguments[0]).length", css
            ),
        )

    yield opened
    loaded = run("return performance.getEntriesByType('resource').map((e) => e.name)")
    assert [name for name in loaded if not name.startswith("data:")] == []
    assert run("return typeof window.evil") == "undefined"
    assert driver.get_log("browser") == []


def test_maps_stand_beside_the_coefficient(page):
    opened = page("maps")
    shown = [opened.picture()]
    for place in (1, 2):
        opened.run(
            "const s = document.getElementById('target'); s.value = arguments[0];"
            "s.dispatchEvent(new Event('change'));",
            place,
        )
        shown.append(opened.picture())
    assert len(set(shown)) == 3
    name = opened.find("#slice").get_attribute("aria-label")
    assert name.startswith("Selection frequency, ")
    # Every point has its interval; two more lines are the diagonal and the null model.
    assert opened.count("#outcome [stroke-opacity]") == 5


@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("name", ["one", "two", "three", "four", "refined", "plain"])
def test_every_order_is_drawn_within_the_screen(page, name, width):
    opened = page(name, width=width)
    colours = opened.run(
        "const c = document.getElementById('slice');"
        "const d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data;"
        "return new Set(new Uint32Array(d.buffer)).size"
    )
    assert colours > 10
    assert opened.run("return document.documentElement.scrollWidth") <= width
    assert opened.count("#outcome circle") > 10


def test_title_is_text(page):
    opened = page("three")
    assert opened.run("return document.title") == EVIL
    assert opened.find("h1").text == EVIL
    assert opened.count("img") == 0


@pytest.mark.parametrize(("name", "n_sliders"), [("two", 0), ("three", 1), ("four", 2)])
def test_each_mode_that_is_not_shown_has_a_slider(page, name, n_sliders):
    assert page(name).count("#sliders input[type=range]") == n_sliders


def test_sliders_move_the_slice(page):
    opened = page("four")
    before = opened.picture()
    value = 0 if opened.find("#mode-3").get_attribute("value") != "0" else 1
    opened.slide("#mode-3", value)
    assert opened.picture() != before
    assert f"axis d {value}" in opened.find("#readout").text


def test_slice_shows_the_numbers(page):
    opened = page("three")
    coef = Tuned().fit(np.zeros((2, 10, 8, 5)), np.zeros(2)).coef_
    opened.slide("#mode-2", 3)
    box = opened.run(
        "const r = document.getElementById('slice').getBoundingClientRect();"
        "return [r.width, r.height]"
    )
    # The picture is centred between margins of 46 and 4, and 4 and 40 pixels.
    height = box[1] - 44
    width = min(box[0] - 50, height * 8 / 10)
    left = 46 + (box[0] - 50 - width) / 2
    for row, column in ((0, 0), (7, 2), (9, 7)):
        opened.run(
            "document.getElementById('slice').dispatchEvent(new PointerEvent("
            "'pointermove', {clientX: arguments[0] + document.getElementById('slice')"
            ".getBoundingClientRect().x, clientY: arguments[1] + document"
            ".getElementById('slice').getBoundingClientRect().y}))",
            left + (column + 0.5) * width / 8,
            4 + (row + 0.5) * height / 10,
        )
        where, value = opened.find("#readout").text.split(" → ")
        assert where == f"axis c 3, axis a {row}, axis b {column}"
        assert np.isclose(
            float(value.replace("−", "-")), coef[row, column, 3], rtol=6e-3, atol=1e-3
        )


def test_keys_move_the_slice_and_the_threshold(page):
    opened = page("four")
    opened.slide("#mode-2", 0)
    opened.slide("#mode-3", 0)
    canvas, pictures = opened.find("#slice"), [opened.picture()]
    for key, selector, value in (
        ("\ue014", "#mode-2", "1"),
        ("\ue013", "#mode-3", "1"),
        ("\ue012", "#mode-2", "0"),
        (".", "#threshold", "5"),
    ):
        canvas.send_keys(key)
        assert opened.find(selector).get_attribute("value") == value
        pictures.append(opened.picture())
    assert len(set(pictures)) == len(pictures)
    canvas.send_keys("o")
    assert opened.find("#overlay").is_selected()
    assert opened.picture() not in pictures


def test_strongest_slice_holds_the_largest_entry(page):
    opened = page("three")
    coef = Tuned().fit(np.zeros((2, 10, 8, 5)), np.zeros(2)).coef_
    opened.slide("#mode-2", 0)
    opened.find("#peak").click()
    peak = np.unravel_index(np.argmax(np.abs(coef)), coef.shape)[2]
    assert opened.find("#mode-2").get_attribute("value") == str(peak)


def test_any_two_modes_can_be_shown(page):
    opened = page("three")
    before = opened.picture()
    opened.run(
        "const s = document.getElementById('rows'); s.value = 2;"
        "s.dispatchEvent(new Event('change'));"
    )
    assert opened.picture() != before
    assert opened.count("#mode-0") == 1
    opened.run(
        "const s = document.getElementById('columns'); s.value = 2;"
        "s.dispatchEvent(new Event('change'));"
    )
    values = [opened.find(f"#{i}").get_attribute("value") for i in ("rows", "columns")]
    assert values == ["1", "2"]


def test_threshold_hides_entries_and_own_scale_changes_colours(page):
    opened = page("two")
    pictures = [opened.picture()]
    opened.slide("#threshold", 40)
    pictures.append(opened.picture())
    opened.slide("#threshold", 100)
    pictures.append(opened.picture())
    assert len(set(pictures)) == 3
    assert "100 %" in opened.find("#threshold-out").text
    opened = page("three")
    weak = int(
        np.argmin(
            np.abs(Tuned().fit(np.zeros((2, 10, 8, 5)), np.zeros(2)).coef_).max(
                axis=(0, 1)
            )
        )
    )
    opened.slide("#mode-2", weak)
    before = opened.picture()
    opened.find("#own-scale").click()
    assert opened.picture() != before


def test_surface_marks_the_chosen_point(page):
    opened = page("four")
    assert opened.count("#surface rect.hit") == 6
    assert opened.count("#surface .chosen") == 1
    opened.run(
        "const s = document.querySelector('#surface-controls label:last-child select');"
        "s.value = 1 - s.value; s.dispatchEvent(new Event('change'));"
    )
    assert opened.count("#surface .chosen") == 0


def test_path_and_surface_keep_to_the_chosen_refinement(page):
    opened = page("refined")
    ticks = opened.run(
        "return ['#surface', '#path-chart'].map((box) => [...document"
        ".querySelectorAll(box + ' text')].map((node) => node.textContent))"
    )
    for texts in ticks:
        assert {"0", "0.3", "1"} <= set(texts)
        assert "0.27" not in texts
    assert opened.count("#surface rect.hit") == 6
    line = opened.find("#path-chart path.as-chosen").get_attribute("d")
    assert [line.count(pen) for pen in "ML"] == [1, 2]
    assert opened.count("#path-chart circle.as-chosen") == 3
    assert opened.find("#path-readout").text.startswith("lambda_sparse = 0.3: 0.6")


def test_a_value_without_candidates_takes_the_others_along(page):
    opened = page("refined")
    opened.run(
        "const s = document.querySelector('#surface-controls label:last-child select');"
        "s.value = 1; s.dispatchEvent(new Event('change'));"
    )
    assert opened.count("#surface rect.hit") == 6
    assert opened.count("#surface .chosen") == 0


def test_name_of_the_score_stands_below_the_ends_of_its_colours(page):
    opened = page("refined")
    name, *ends = opened.run(
        "const texts = [...document.querySelectorAll('#surface text')];"
        "return texts.slice(-3).reverse().map((node) => {"
        "const r = node.getBoundingClientRect(); return [r.top, r.bottom]; })"
    )
    assert opened.find("#surface .score-name").text == "R²"
    assert all(name[0] >= end[1] - 2 for end in ends)


def test_slices_are_read_by_their_coordinates(page):
    opened = page("refined")
    opened.slide("#mode-2", 2)
    assert opened.find("#readout").text == "Trial 7"
    assert opened.find("#sliders output").text == "7"
    assert "of 2 to 7" in opened.find("#sliders label").text
    drawn = opened.run(
        "const proto = CanvasRenderingContext2D.prototype, old = proto.fillText;"
        "const texts = []; proto.fillText = function (text, ...rest) {"
        "texts.push(String(text)); return old.call(this, text, ...rest); };"
        "document.getElementById('own-scale').click(); proto.fillText = old;"
        "return texts"
    )
    assert {"−100", "0", "100", "200", "long name a", "time (ms)"} <= set(drawn)


@pytest.mark.parametrize("name", ["three", "four"])
def test_path_explorer_moves(page, name):
    opened = page(name)
    texts = set()
    for place in (0, 1, 2):
        opened.slide("#path-slider", place)
        texts.add(opened.find("#path-readout").text)
    assert len(texts) == 3
    assert opened.count("#path-chart .cursor") == 1
    assert opened.find("#path-picture").is_displayed() == (name == "three")


def test_dark_mode_changes_page_and_pictures(page):
    def look(dark):
        opened = page("three", dark=dark)
        style = "return getComputedStyle(document.body).backgroundColor"
        return opened.run(style), opened.picture()

    light, dark = look(False), look(True)
    assert light[0] != dark[0]
    assert light[1] != dark[1]


def test_page_prints(page, driver):
    page("three")
    pdf = driver.execute_cdp_cmd("Page.printToPDF", {})["data"]
    assert len(pdf) > 10_000
