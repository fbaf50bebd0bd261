#!/usr/bin/env python3
"""The web page in a real browser: headless Chromium, driven over WebDriver.

GPUPOOL_SCREENSHOTS=DIR keeps pictures of the pages. GPUPOOL_AXE=FILE names axe.min.js
of the npm package axe-core, with which each page is checked for what stands in the way
of people who use a keyboard or a screen reader.
"""
import os
import pathlib
import shutil
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import harness  # noqa: E402

try:
    from selenium import webdriver
    from selenium.common.exceptions import StaleElementReferenceException
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.by import By
except ImportError:
    webdriver = None

SPEC = """{
  "name": "curve",
  "model": {"input_shape": [1, 8, 8],
            "layers": [{"flatten": {}}, {"dense": {"units": 32}}, {"relu": {}},
                       {"dense": {"units": 10}}]},
  "data": {"dataset": "digits"},
  "training": {"cross_entropy": {}, "sgd": {"learning_rate": 0.01}, "batch_size": 32,
               "steps": 100000000, "report_every_steps": 20}
}"""


def browser():
    """Returns a browser, or skips the test where none is installed."""
    if webdriver is None or not shutil.which("chromium") \
            or not shutil.which("chromedriver"):
        raise unittest.SkipTest(
            "no browser: install chromium, chromium-driver and python3-selenium")
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for flag in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage",
                 "--disable-gpu", "--window-size=1280,900"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(service=Service(shutil.which("chromedriver")),
                            options=options)


class Web(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.driver = browser()
        self.addCleanup(self.driver.quit)

    def open(self, page):
        self.driver.get(f"http://127.0.0.1:{self.server.ports['http_port']}/#/{page}")

    def start_with(self, *names):
        self.server = self.start("--devices", "cpu:1")
        self.server.upload_digits()
        return [self.server.submit(harness.digits_job(name, publish="true"))
                for name in names]

    def text(self):
        return self.driver.find_element(By.TAG_NAME, "main").text

    def see(self, words, seconds=60):
        """Waits until the page shows these words. It may be drawn anew meanwhile."""
        def shown():
            try:
                return words in self.text()
            except StaleElementReferenceException:
                return False
        try:
            harness.wait_until(shown, seconds, f"the page to show '{words}'")
        except AssertionError as error:
            raise AssertionError(f"{error}; it shows:\n{self.text()}\n"
                                 f"{self.complaints()}") from None

    def press(self, name):
        def pressed():
            for button in self.driver.find_elements(By.TAG_NAME, "button"):
                try:
                    if button.text == name and button.is_enabled():
                        button.click()
                        return True
                except StaleElementReferenceException:
                    pass
            return False
        harness.wait_until(pressed, 60, f"a button '{name}'")

    def complaints(self):
        """Returns the errors on the browser's console."""
        return [entry["message"] for entry in self.driver.get_log("browser")
                if entry["level"] == "SEVERE"]

    def picture(self, name):
        folder = os.environ.get("GPUPOOL_SCREENSHOTS")
        if folder:
            self.driver.save_screenshot(str(pathlib.Path(folder, f"{name}.png")))

    def points(self):
        """Returns the last step of the curve of the loss, 0 before it has one."""
        for line in self.text().splitlines():
            if line.startswith("training: "):
                return int(line.split(" at step ")[1].split(";")[0].replace(",", ""))
        return 0

    def test_a_person_submits_watches_profiles_and_cancels(self):
        self.start_with()
        self.open("submit")
        field = harness.wait_until(
            lambda: self.driver.find_elements(By.ID, "spec"), 60, "the form")[0]
        self.driver.execute_script("arguments[0].value = arguments[1]", field, SPEC)
        self.press("Plan")
        self.see("It needs ")
        self.press("Submit")
        self.see("Job 1: curve")
        first = harness.wait_until(self.points, 120, "the first point of the curve")
        harness.wait_until(lambda: self.points() > first, 120, "the curve to grow")
        self.see("running")
        self.see("learning rate: 0.01 at step ")
        self.assertTrue(self.driver.find_elements(By.CSS_SELECTOR, ".chart canvas"))
        self.press("Profile 5 steps")
        self.see("By operator", 120)
        self.see("matmul")
        self.picture("job")
        self.press("Cancel")
        self.driver.switch_to.alert.accept()
        self.see("cancelled")
        self.assertEqual("CANCELLED", self.server.wait_job(1)["state"])
        self.assertEqual([], self.complaints())

    def test_a_token_is_asked_for_kept_in_the_tab_and_forgotten(self):
        self.server = self.start("--devices", "cpu:1", "--auth", "tokens")
        secret = (self.server.state / "admin-token").read_text().strip()
        self.open("jobs")
        self.see("The server wants a token")
        self.driver.find_element(By.ID, "token").send_keys(
            "gpk_" + "A" * 43)
        self.press("Sign in")
        self.see("does not know this token")
        self.driver.find_element(By.ID, "token").send_keys(secret)
        self.press("Sign in")
        self.see("no such job")
        self.driver.refresh()
        self.see("no such job")
        self.press("Sign out")
        self.see("The server wants a token")

    def test_an_error_is_told_and_goes(self):
        self.start_with()
        self.open("submit")
        field = harness.wait_until(
            lambda: self.driver.find_elements(By.ID, "spec"), 60, "the form")[0]
        self.driver.execute_script(
            "arguments[0].value = arguments[1]", field, SPEC.replace("digits", "none"))
        self.press("Submit")
        notice = self.driver.find_element(By.ID, "notice")
        harness.wait_until(lambda: "none" in notice.text, 60, "the error")
        self.driver.execute_script("arguments[0].value = '{'", field)
        self.press("Submit")
        harness.wait_until(lambda: "no JSON" in notice.text, 60, "the error")
        self.driver.execute_script("arguments[0].value = arguments[1]", field, SPEC)
        self.press("Plan")
        self.see("It needs ")
        self.assertFalse(notice.is_displayed())

    def test_every_page_is_whole_on_any_screen(self):
        jobs = self.start_with("one", "two")
        for job in jobs:
            self.server.wait_job(job)
        pages = {
            "pool": "cpu:0", "jobs": "two", f"job/{jobs[0]}": "succeeded",
            f"compare/{jobs[0]},{jobs[1]}": "Settings", "models": "two",
            "models/two": "Inputs", "memory": "cpu:0", "memory/cpu:0": "Owners",
            "usage": "default", "submit": "JobSpec"}
        for width in (1280, 360):
            self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
                "width": width, "height": 900, "deviceScaleFactor": 1,
                "mobile": False})
            for page, words in pages.items():
                with self.subTest(page=page, width=width):
                    self.open(page)
                    harness.wait_until(
                        lambda: page.split("/")[0] in self.driver.title, 60, page)
                    self.see(words)
                    self.assertLessEqual(self.driver.execute_script(
                        "return document.documentElement.scrollWidth"), width)
                    self.picture(f"{page.replace('/', '-')}-{width}")
                    self.check_with_axe()
        own = f"http://127.0.0.1:{self.server.ports['http_port']}/"
        asked = self.driver.execute_script(
            "return performance.getEntriesByType('resource').map(e => e.name)")
        self.assertEqual([], [name for name in asked if not name.startswith(own)])
        self.assertEqual([], self.complaints())

    def check_with_axe(self):
        script = os.environ.get("GPUPOOL_AXE")
        if not script:
            return
        self.driver.execute_script(pathlib.Path(script).read_text())
        found = self.driver.execute_async_script(
            "const done = arguments[0]; axe.run().then(r => done(r.violations))")
        serious = [(rule["id"], rule["nodes"][0]["html"]) for rule in found
                   if rule["impact"] in ("serious", "critical")]
        self.assertEqual([], serious)


if __name__ == "__main__":
    harness.main()
