// What pages do besides links, forms and htmx. Without it they work as well, with more clicks.
"use strict";

// Two runs can be compared when exactly two are ticked.
function countTicks(form) {
  const ticked = form.querySelectorAll("input[name=run]:checked").length;
  const button = form.querySelector("[data-needs]");
  const hint = form.querySelector("[data-hint]");
  button.disabled = ticked !== Number(button.dataset.needs);
  hint.textContent = ["Tick two runs to compare them.", "Tick one more.", ""][ticked] ?? "Tick only two.";
}

// A job reports where it is until it is over.
function follow(box) {
  const source = new EventSource(box.dataset.events);
  const show = (event) => {
    const log = box.querySelector(".log");
    const atEnd = log && log.scrollTop + log.clientHeight >= log.scrollHeight - 4;
    const focused = box.contains(document.activeElement) ? document.activeElement.className : null;
    box.innerHTML = event.data;
    const now = box.querySelector(".log");
    if (now && atEnd !== false) now.scrollTop = now.scrollHeight;
    if (focused === "log") now.focus();
    else if (focused !== null) box.querySelector("button, a.button")?.focus();
  };
  source.addEventListener("progress", show);
  source.addEventListener("end", (event) => {
    source.close();
    show(event);
  });
}

function prepare(root) {
  root.querySelectorAll("[data-compare]").forEach((form) => {
    countTicks(form);
    form.addEventListener("change", () => countTicks(form));
  });
  root.querySelectorAll("[data-events]").forEach(follow);
}

document.addEventListener("DOMContentLoaded", () => prepare(document));
document.addEventListener("htmx:afterSwap", (event) => prepare(event.target));
document.addEventListener("submit", (event) => {
  const text = event.target.dataset.busyText;
  const button = event.target.querySelector("button:not([type=button])");
  if (text && button) {
    button.textContent = text;
    setTimeout(() => { button.disabled = true; });
  }
});
document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-busy]");
  if (link) {
    link.textContent = link.dataset.busy;
    link.setAttribute("aria-busy", "true");
  }
});
