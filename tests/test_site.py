"""The built site in a real browser: navigation, search, tables and dark mode, without a network.

``make docs`` builds it; ``make test-site`` runs this file. The browser is Debian's chromium.
"""

import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

SITE = Path(__file__).parents[1] / "site" / "html"
PAGES = sorted(
    path.relative_to(SITE).as_posix()
    for path in SITE.rglob("*.html")
    if "_static" not in path.relative_to(SITE).parts
)
SECTIONS = ["tutorials", "how-to", "gallery", "explanation", "reference", "evidence"]
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}

pytestmark = pytest.mark.skipif(not PAGES, reason="the site is not built: run make docs")


class Links(HTMLParser):
    """The addresses that a page loads, those that it links to, and its anchors."""

    def __init__(self, page):
        super().__init__()
        self.loaded, self.linked, self.anchors = [], [], set()
        self.feed((SITE / page).read_text("utf-8"))

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        self.anchors |= {values[key] for key in ("id", "name") if values.get(key)}
        if tag == "a":
            self.linked += [values["href"]] if values.get("href") else []
        elif tag == "link" and values.get("rel") not in ("stylesheet", "icon", "preload"):
            pass
        else:
            self.loaded += [values[key] for key in ("src", "href") if values.get(key)]


@pytest.fixture(scope="module")
def links():
    return {page: Links(page) for page in PAGES}


def test_nothing_is_loaded_from_other_hosts(links):
    loaded = {url for page in links.values() for url in page.loaded}
    assert not {url for url in loaded if urlsplit(url).scheme not in ("", "data")}
    styles = "".join(path.read_text("utf-8") for path in SITE.rglob("*.css"))
    assert not re.findall(r"(?:url\(|@import )[\"']?(?:https?:)?//", styles)


def test_every_link_within_the_site_has_a_target(links):
    missing = []
    for page, found in links.items():
        for url in found.linked + found.loaded:
            parts = urlsplit(url)
            if parts.scheme or parts.netloc:
                continue
            target = (SITE / page).parent / unquote(parts.path) if parts.path else SITE / page
            target = target.resolve() / "index.html" if target.is_dir() else target.resolve()
            if not target.exists():
                missing.append(f"{page}: {url}")
            elif parts.fragment and target.suffix == ".html":
                anchors = links[target.relative_to(SITE.resolve()).as_posix()].anchors
                if unquote(parts.fragment) not in anchors:
                    missing.append(f"{page}: {url}")
    assert not missing


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        pytest.skip("no chromium: run make browser")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def open_page(browser):
    """A function that opens pages; the test fails where one has an error in its console."""
    contexts, problems = [], []

    def open_one(page=None, viewport=DESK, scheme="light"):
        contexts.append(browser.new_context(viewport=viewport, color_scheme=scheme))
        tab = contexts[-1].new_page()
        tab.on("pageerror", lambda error: problems.append(error.message))
        tab.on("request", lambda r: r.url[:5] in ("file:", "data:") or problems.append(r.url))
        if page is not None:
            tab.goto((SITE / page).as_uri())
        return tab

    yield open_one
    for context in contexts:
        context.close()
    # Searching from the disk lists pages without their excerpts: browsers do not fetch files.
    assert not [problem for problem in problems if problem != "Failed to fetch"]


@pytest.mark.parametrize("section", SECTIONS)
def test_each_section_is_one_click_away(section, open_page):
    tab = open_page("index.html")
    tab.locator(f"header a[href='{section}/index.html']").first.click()
    tab.wait_for_load_state()
    assert tab.url.endswith(f"{section}/index.html")
    assert tab.locator("h1").count() == 1


def test_a_phone_has_the_sections_in_a_menu(open_page):
    tab = open_page("index.html", PHONE)
    tab.locator("button.primary-toggle, label.primary-toggle").first.click()
    link = tab.locator(
        "dialog a[href='how-to/index.html'], .bd-sidebar-primary a[href='how-to/index.html']"
    )
    link.first.wait_for(state="visible")
    link.first.click()
    tab.wait_for_load_state()
    assert tab.url.endswith("how-to/index.html")


@pytest.mark.parametrize(
    ("words", "page"),
    [
        ("shapley", "how-to/explain-predictions.html"),
        ("CompactKernelClassifier", "reference/api/kernlet.CompactKernelClassifier.html"),
        ("duality gap", "explanation/certificates.html"),
    ],
)
def test_search_finds_pages_without_a_network(words, page, open_page):
    tab = open_page("index.html")
    tab.keyboard.press("Control+k")
    tab.locator("dialog input[type=search], .search-button__search-container input").first.fill(
        words
    )
    tab.keyboard.press("Enter")
    tab.locator(f"#search-results li a[href*='{page}']").first.wait_for(timeout=20_000)


@pytest.mark.parametrize("viewport", [PHONE, DESK], ids=["phone", "desk"])
def test_pages_fit_the_screen_and_tables_scroll_in_their_box(viewport, open_page):
    tab, wide = open_page(viewport=viewport), []
    for page in PAGES:
        tab.goto((SITE / page).as_uri())
        if tab.evaluate("document.documentElement.scrollWidth > window.innerWidth"):
            wide.append(page)
    assert not wide


def luminance(color):
    """Relative luminance of a colour such as ``rgb(20, 24, 30)``, as WCAG defines it."""
    channels = [int(number) / 255 for number in re.findall(r"\d+", color)[:3]]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_and_pictures_are_legible_in_both_modes(scheme, open_page):
    tab = open_page(scheme=scheme)
    for page in ("index.html", *(f"{section}/index.html" for section in SECTIONS)):
        tab.goto((SITE / page).as_uri())
        ground, ink = tab.evaluate(
            "['backgroundColor', 'color'].map(name => getComputedStyle(document.body)[name])"
        )
        dark, bright = sorted([luminance(ground), luminance(ink)])
        assert (bright + 0.05) / (dark + 0.05) >= 7
        assert (luminance(ground) < 0.2) == (scheme == "dark")
        grounds = tab.locator("article img").evaluate_all(
            "images => images.map(image => getComputedStyle(image).backgroundColor)"
        )
        assert set(grounds) <= {"rgba(0, 0, 0, 0)"}
