"use strict";
(() => {
  const root = document.getElementById("survey");
  const shown = (id) => document.getElementById(id);
  const form = shown("questions");
  const pictures = [...document.querySelectorAll("#pictures > *")];
  const ids = pictures.map((one) => one.dataset.picture);
  const key = "fairprobe-survey:" + root.dataset.study;
  const fields = ["realism", "likelihood", "vehicles"];
  const columns = ["participant", "picture", ...fields];

  const fresh = () => {
    const random = crypto.getRandomValues(new Uint32Array(2));
    return { participant: [...random].map((one) => one.toString(36)).join(""), at: 0, answers: {} };
  };
  const kept = () => {
    try {
      const found = JSON.parse(localStorage.getItem(key));
      return found && found.participant && found.answers ? found : null;
    } catch {
      return null;
    }
  };
  const keep = () => {
    try {
      localStorage.setItem(key, JSON.stringify(state));
    } catch {
      shown("not-kept").hidden = false;
    }
  };

  let state = kept() || fresh();
  const isDone = (id) => fields.every((name) => (state.answers[id] || {})[name] !== undefined);
  const done = () => ids.filter(isDone).length;

  const csv = () => {
    const cell = (text) => (/[",\n\r]/.test(text) ? '"' + text.replaceAll('"', '""') + '"' : text);
    const rows = ids.filter(isDone).map((id) => [state.participant, id, ...fields.map((name) => state.answers[id][name])]);
    return [columns, ...rows].map((row) => row.map((one) => cell(String(one))).join(",")).join("\n") + "\n";
  };
  const download = () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv()], { type: "text/csv" }));
    link.download = "survey-" + state.participant + ".csv";
    document.body.append(link);
    link.click();
    link.remove();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  };

  const show = (part) => {
    for (const name of ["start", "asking", "end"]) shown(name).hidden = name !== part;
    for (const one of document.querySelectorAll(".so-far")) one.textContent = done() + " of " + ids.length;
    shown("save").hidden = part === "end" || !done();
  };
  const ask = (at) => {
    state.at = Math.max(0, Math.min(at, ids.length - 1));
    keep();
    pictures.forEach((one, place) => (one.hidden = place !== state.at));
    const answer = state.answers[ids[state.at]] || {};
    form.reset();
    for (const name of ["realism", "likelihood"])
      for (const one of form.elements[name]) one.checked = one.value === String(answer[name]);
    form.elements.vehicles.value = answer.vehicles === undefined ? "" : answer.vehicles;
    shown("place").textContent = "Picture " + (state.at + 1) + " of " + ids.length;
    shown("progress").value = done();
    shown("back").disabled = state.at === 0;
    shown("next").textContent = state.at === ids.length - 1 ? "Finish" : "Next picture";
    show("asking");
    shown("place").focus();
    scrollTo(0, 0);
  };
  const end = () => {
    shown("answers").textContent = csv();
    show("end");
    shown("end-heading").focus();
  };

  shown("progress").max = ids.length;
  shown("begin").textContent = done() ? "Go on" : "Begin";
  shown("begin").disabled = !ids.length;
  show("start");
  shown("begin").addEventListener("click", () => ask(state.at));
  shown("back").addEventListener("click", () => ask(state.at - 1));
  shown("review").addEventListener("click", () => ask(0));
  for (const one of document.querySelectorAll(".download")) one.addEventListener("click", download);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    const given = new FormData(form);
    state.answers[ids[state.at]] = Object.fromEntries(fields.map((name) => [name, Number(given.get(name))]));
    keep();
    const left = ids.findIndex((id) => !isDone(id));
    if (state.at < ids.length - 1) ask(state.at + 1);
    else if (left >= 0) ask(left);
    else end();
  });
  for (const one of document.querySelectorAll(".again"))
    one.addEventListener("click", () => {
      if (!confirm("Delete all answers on this device and start again?")) return;
      state = fresh();
      keep();
      shown("begin").textContent = "Begin";
      show("start");
    });
})();
