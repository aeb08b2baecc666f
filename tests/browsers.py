"""Headless Chromium for tests of pages, which are skipped without Chromium and its driver."""

import shutil

import pytest

SWITCHES = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


class Browser:
    """Headless Chromium with the operations of the tests."""

    def __init__(self, driver, folder):
        self.driver, self.folder = driver, folder

    def open(self, report, change=lambda page: page, address="", width=1200, scheme="light"):
        """Open the page of a report."""
        from maxplus.report import render_page

        self.show(change(render_page(report)), address, width, scheme)

    def show(self, page, address="", width=1200, scheme="light"):
        """Open an HTML page and discard earlier console messages."""
        from selenium.webdriver.support.wait import WebDriverWait

        path = self.folder / "page.html"
        path.write_text(page, encoding="utf-8")
        # An address that differs only in its fragment would not load a new page.
        self.driver.get("about:blank")
        self.console_messages()
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": False},
        )
        feature = {"name": "prefers-color-scheme", "value": scheme}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
        self.driver.get(path.as_uri() + address)
        # The driver may return before the blank page has been replaced.
        loaded = "return location.protocol === 'file:' && document.readyState === 'complete'"
        WebDriverWait(self.driver, 30).until(lambda driver: driver.execute_script(loaded))

    def run(self, script, *args):
        return self.driver.execute_script(script, *args)

    def find(self, selector):
        return self.driver.find_element("css selector", selector)

    def column(self, table, number):
        """Return the texts of a column, from top to bottom."""
        return self.run(
            "return [...document.getElementById(arguments[0]).tBodies[0].rows]"
            ".map(row => row.cells[arguments[1]].textContent)",
            table,
            number,
        )

    def style(self, selector, name):
        return self.find(selector).value_of_css_property(name)

    def press(self, *keys):
        self.driver.switch_to.active_element.send_keys(*keys)

    def console_messages(self):
        return self.driver.get_log("browser")

    @property
    def announcement(self):
        return self.run("return document.getElementById('announcement').textContent")

    @property
    def focus(self):
        return self.run("return document.activeElement.id")


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    """Start one browser for all tests of a module."""
    webdriver = pytest.importorskip("selenium.webdriver")
    chromium, chromedriver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and chromedriver):
        pytest.skip("needs chromium and chromedriver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for switch in (*SWITCHES, f"--user-data-dir={tmp_path_factory.mktemp('profile')}"):
        options.add_argument(switch)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(executable_path=chromedriver)
    driver = webdriver.Chrome(options=options, service=service)
    yield Browser(driver, tmp_path_factory.mktemp("pages"))
    driver.quit()


@pytest.fixture
def browser(session):
    """Fail if the console has messages after a test."""
    yield session
    assert session.console_messages() == []


@pytest.fixture
def keys(session):
    from selenium.webdriver.common.keys import Keys

    return Keys
