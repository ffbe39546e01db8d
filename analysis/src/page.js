(() => {
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.hidden = true;
  document.body.append(tip);
  // Without this script the titles are the browser's own tooltips.
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
})();
