// Opens a report's page as readers do, and says what is wrong with it.
import { readFileSync } from "node:fs";
import { chromium } from "playwright-core";

const [, , page, executablePath] = process.argv;
const axe = readFileSync(new URL(import.meta.resolve("axe-core")), "utf8");
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const problems = [];
for (const width of [1440, 768, 390]) {
  for (const colorScheme of ["light", "dark"]) {
    const view = await browser.newPage({ viewport: { width, height: 900 }, colorScheme });
    const note = (text) => problems.push(`${width} px, ${colorScheme}: ${text}`);
    view.on("pageerror", (error) => note(String(error)));
    view.on("request", (request) => {
      if (!/^(file|data):/.test(request.url())) note(`asks for ${request.url()}`);
    });
    await view.goto(`file://${page}`);
    const room = await view.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    if (room > 0) note(`${room} px wider than the window`);
    const buttons = view.locator(".show");
    if ((await buttons.count()) > 1) {
      await buttons.nth(0).click();
      await buttons.nth(1).click();
      if ((await view.locator("#run-details table tbody tr").count()) === 0) note("two runs cannot be compared");
    }
    await view.evaluate(axe);
    const found = await view.evaluate(() => window.axe.run());
    for (const { id, impact, nodes } of found.violations) {
      const text = `axe: ${id} (${impact}), ${nodes.length} times, first at ${nodes[0].html.slice(0, 120)}`;
      if (["serious", "critical"].includes(impact)) note(text);
      else console.log(`${width} px, ${colorScheme}: ${text}`);
    }
    await view.close();
  }
}
const plain = await (await browser.newContext({ javaScriptEnabled: false })).newPage();
await plain.goto(`file://${page}`);
const [figures, rows] = [await plain.locator("figure svg").count(), await plain.locator("#run-table tbody tr").count()];
console.log(`without script: ${figures} drawings, ${rows} runs`);
if (figures === 0 || rows === 0) problems.push("without script there is nothing to see");
await browser.close();
console.log(problems.length ? problems.join("\n") : "the page is fine");
process.exit(problems.length ? 1 : 0);
