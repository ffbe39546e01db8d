(() => {
  "use strict";
  const make = (name, attributes = {}, ...children) => {
    const element = document.createElement(name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };

  // Values of the figures' marks. Without this script they are the browser's own tooltips.
  const tip = make("div", { class: "tip", hidden: "" });
  document.body.append(tip);
  for (const point of document.querySelectorAll("svg .pt")) {
    const title = point.querySelector("title");
    if (title) {
      point.dataset.tip = title.textContent;
      title.remove();
    }
  }
  const show = (event) => {
    const point = event.target.closest && event.target.closest(".pt");
    tip.hidden = !point;
    if (!point) return;
    tip.textContent = point.dataset.tip;
    const box = tip.getBoundingClientRect();
    const left = Math.min(event.clientX + 14, window.innerWidth - box.width - 8);
    const above = event.clientY - box.height - 12;
    tip.style.left = Math.max(8, left) + "px";
    tip.style.top = (above > 4 ? above : event.clientY + 18) + "px";
  };
  document.addEventListener("pointermove", show);
  document.addEventListener("pointerdown", show);
  document.addEventListener("scroll", () => { tip.hidden = true; }, true);

  // Runs: filter, sort, look at one, compare two.
  const table = document.getElementById("run-table");
  if (!table) return;
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const runs = JSON.parse(document.getElementById("run-data").textContent);
  document.querySelector(".tools").hidden = false;
  document.querySelector(".all-runs").open = true;

  const filter = document.getElementById("run-filter");
  const counted = document.getElementById("run-count");
  const apply = () => {
    const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
    let shown = 0;
    for (const row of rows) {
      row.hidden = !words.every((word) => row.dataset.words.includes(word));
      if (!row.hidden) shown += 1;
    }
    counted.textContent = words.length ? `${shown} of ${rows.length}` : "";
  };
  filter.addEventListener("input", apply);

  const value = (row, column) => {
    const cell = row.cells[column];
    const text = cell.dataset.value ?? cell.textContent.trim();
    const number = parseFloat(text);
    return Number.isNaN(number) || cell.className !== "n" ? text : number;
  };
  [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = make("button", { type: "button" }, head.textContent);
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const order = head.getAttribute("aria-sort") === "ascending" ? "descending" : "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", order);
      const sign = order === "ascending" ? 1 : -1;
      const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b)));
      rows.sort((a, b) => sign * compare(value(a, column), value(b, column)));
      body.append(...rows);
    });
  });

  const line = (points, title, unit) => {
    const [width, height, left, bottom] = [420, 190, 46, 28];
    const xs = points.map((point) => point[0]);
    const ys = points.map((point) => point[1]);
    const [low, high, last] = [Math.min(...ys), Math.max(...ys), Math.max(...xs, 1)];
    const at = ([x, y]) => {
      const across = left + (x / last) * (width - left - 10);
      const up = high > low ? (y - low) / (high - low) : 0.5;
      return `${across.toFixed(1)},${(12 + (1 - up) * (height - bottom - 20)).toFixed(1)}`;
    };
    const round = (number) => Number(number.toPrecision(3));
    const label = `${title}: from ${round(ys[0])} to ${round(ys[ys.length - 1])} in ${last} steps`;
    const holder = make("div");
    holder.innerHTML = `<svg viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">
      <polyline points="${points.map(at).join(" ")}" fill="none" stroke="var(--blue)" stroke-width="2"/>
      <g font-size="12" fill="currentColor"><text x="2" y="17">${round(high)}</text>
      <text x="2" y="${height - bottom - 4}">${round(low)}</text><text x="${left}" y="${height - 8}"></text></g></svg>`;
    holder.firstElementChild.setAttribute("aria-label", label);
    holder.querySelector("text:last-child").textContent = `${title}${unit}, ${last} steps`;
    return holder;
  };
  const details = document.getElementById("run-details");
  let chosen = [];
  const said = (value) => (value === undefined ? "—" : typeof value === "string" ? value : JSON.stringify(value));
  const show_chosen = () => {
    for (const row of rows) row.classList.toggle("chosen", chosen.includes(row.dataset.run));
    if (!chosen.length) return details.replaceChildren();
    const curves = chosen.map((id) => {
      const run = runs[id];
      const block = make("div", {}, make("h3", {}, `Run ${id}`));
      if (run.loss.length > 1) block.append(line(run.loss, "training loss", ""));
      if (run.scores.length > 1) block.append(line(run.scores, run.metric, " on validation"));
      if (run.loss.length < 2 && run.scores.length < 2) block.append(make("p", { class: "note" }, "It has no learning curve."));
      return block;
    });
    const keys = [...new Set(chosen.flatMap((id) => Object.keys(runs[id].config)))].sort();
    const differs = (key) => new Set(chosen.map((id) => said(runs[id].config[key]))).size > 1;
    const shown = chosen.length > 1 ? keys.filter(differs) : keys;
    const head = make("tr", {}, make("th", { scope: "col" }, "key"), ...chosen.map((id) => make("th", { scope: "col" }, id)));
    const lines = shown.map((key) => make("tr", {}, make("td", {}, key), ...chosen.map((id) => make("td", {}, said(runs[id].config[key])))));
    const what = chosen.length > 1 ? "What differs" : "Its settings";
    details.replaceChildren(
      make("div", { class: "pair" }, ...curves),
      make("h3", {}, what),
      make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": what },
        make("table", {}, make("thead", {}, head), make("tbody", {}, ...lines))),
    );
  };
  for (const row of rows) {
    const id = row.dataset.run;
    if (!runs[id]) continue;
    const button = make("button", { type: "button", class: "show", "aria-pressed": "false", "aria-label": `Show run ${id}` }, "show");
    row.cells[0].append(" ", button);
    button.addEventListener("click", () => {
      chosen = chosen.includes(id) ? chosen.filter((other) => other !== id) : [...chosen.slice(-1), id];
      for (const other of table.querySelectorAll(".show")) {
        other.setAttribute("aria-pressed", String(chosen.includes(other.closest("tr").dataset.run)));
      }
      show_chosen();
    });
  }
})();
