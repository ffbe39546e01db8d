"""Opens a report in headless Chromium and checks it; needs Playwright and a system Chromium.

    pip install playwright
    REPORT_OUT=/tmp/reports cargo test --release -p analysis --test report -- --include-ignored
    python analysis/tests/browser/check_report.py /tmp/reports/paper/out/report.html [SCREENSHOTS]

Every figure and table must be there and visible, nothing may be wider than the page, links must lead to files, a point must
show its value when pointed at, nothing may be loaded from the network, and no error may appear, on a laptop and on a phone,
with and without JavaScript. `--chromium PATH` names another browser.
"""

import argparse
import sys
from pathlib import Path
from urllib.parse import unquote, urlparse

from playwright.sync_api import sync_playwright

FIGURES = ["fig1", "fig3", "fig4", "fig5", "fig6-spans", "fig6-init", "fig7"]
TABLES = ["table1", "table2", "sizes", "variants", "stream"]


def check(browser, report, width, script, shots):
    context = browser.new_context(viewport={"width": width, "height": 844}, java_script_enabled=script)
    page = context.new_page()
    wrong = []
    page.on("console", lambda message: message.type == "error" and wrong.append(f"console: {message.text}"))
    page.on("pageerror", lambda error: wrong.append(f"script: {error}"))
    page.on("request", lambda request: request.url.startswith("http") and wrong.append(f"network: {request.url}"))
    page.goto(report.as_uri())

    for name in FIGURES:
        shown = [svg for svg in page.locator(f"#{name} figure svg").all() if svg.is_visible()]
        if len(shown) != 1:
            wrong.append(f"{name}: {len(shown)} visible drawings")
            continue
        box = shown[0].bounding_box()
        if box["width"] < 250 or box["height"] < 150:
            wrong.append(f"{name}: only {box['width']:.0f} × {box['height']:.0f}")
        if not shown[0].get_attribute("aria-label"):
            wrong.append(f"{name}: no label for readers who cannot see it")
    for name in TABLES:
        if not page.locator(f"#{name} table").first.is_visible():
            wrong.append(f"{name}: no table")
    if page.locator(".finding").count() < 12:
        wrong.append("findings are missing")

    for target in sorted(set(page.locator("a").evaluate_all("links => links.map(link => link.getAttribute('href'))"))):
        if target.startswith("#"):
            if page.locator(target).count() != 1:
                wrong.append(f"link to nowhere: {target}")
        elif not (report.parent / unquote(urlparse(target).path)).exists():
            wrong.append(f"link to nowhere: {target}")

    if script:
        overflow = page.evaluate("document.documentElement.scrollWidth - window.innerWidth")
        if overflow > 0:
            wrong.append(f"the page is {overflow} pixels wider than the screen")
        outside = page.evaluate(
            """() => [...document.querySelectorAll('figure svg')].filter(svg => svg.clientWidth > 0).flatMap(svg => {
                const edge = svg.getBoundingClientRect();
                return [...svg.querySelectorAll('text')].filter(text => {
                    const box = text.getBoundingClientRect();
                    return box.left < edge.left - 1 || box.right > edge.right + 1 || box.top < edge.top - 1
                        || box.bottom > edge.bottom + 1;
                }).map(text => text.textContent);
            })"""
        )
        wrong.extend(f"clipped text: {text}" for text in outside)
        overlaps = page.evaluate(
            """() => [...document.querySelectorAll('figure svg')].filter(svg => svg.clientWidth > 0).flatMap(svg => {
                const boxes = [...svg.querySelectorAll('text')].map(text => [text.textContent, text.getBoundingClientRect()]);
                const touch = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2;
                return boxes.flatMap(([one, a], i) => boxes.slice(i + 1).filter(([_, b]) => touch(a, b))
                    .map(([two]) => one + ' / ' + two));
            })"""
        )
        wrong.extend(f"overlapping texts: {texts}" for texts in overlaps)
        points = page.locator("svg .pt:visible")
        if points.count() > 0:
            points.first.scroll_into_view_if_needed()
            # Scrolling takes a value away, and says so a moment later.
            page.wait_for_timeout(200)
            points.first.hover(force=True)
            if not page.locator(".tip").is_visible() or not page.locator(".tip").inner_text().strip():
                wrong.append("pointing at a point shows nothing")
            page.mouse.move(0, 0)
    if shots:
        shots.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=shots / f"{width}{'' if script else '-no-script'}.png", full_page=True)
    context.close()
    return [f"{width} px, JavaScript {'on' if script else 'off'}: {what}" for what in wrong]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("report", type=Path)
    parser.add_argument("screenshots", type=Path, nargs="?")
    parser.add_argument("--chromium", default="/usr/bin/chromium")
    args = parser.parse_args()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=args.chromium, args=["--no-sandbox"])
        wrong = []
        for width, script in [(1280, True), (390, True), (1280, False), (390, False)]:
            wrong += check(browser, args.report.resolve(), width, script, args.screenshots)
        browser.close()
    print("\n".join(wrong) or f"{args.report}: all well")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
