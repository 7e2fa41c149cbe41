"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  const code = Object.fromEntries([...alphabet].map((c, i) => [c, i]));
  const main = data.metrics.filter((m) => m.main);
  const RUN = ["id", "seed", ...data.metrics.map((m) => m.key), "ms", "seconds", "mb", "matrix", "config", "facts", "command", "finished", "order"];
  const dialog = document.getElementById("detail");

  const el = (tag, attributes = {}, ...children) => {
    const node = document.createElement(tag);
    for (const [k, v] of Object.entries(attributes)) {
      if (k.startsWith("on")) node.addEventListener(k.slice(2), v); else node.setAttribute(k, v);
    }
    node.append(...children.filter((c) => c !== null && c !== undefined));
    return node;
  };
  const svg = (tag, attributes = {}, ...children) => {
    const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [k, v] of Object.entries(attributes)) node.setAttribute(k, v);
    node.append(...children);
    return node;
  };
  const unpack = (text) => {
    const out = [];
    for (let i = 0; i < text.length; i += 2) {
      const v = code[text[i]] * 64 + code[text[i + 1]];
      out.push(v === data.unknown ? NaN : v / data.levels);
    }
    return out;
  };
  const rows = (values) => {
    const out = [];
    for (let start = 0, width = 1; start < values.length; start += width, width += 1) out.push(values.slice(start, start + width));
    return out;
  };
  const fixed = (v, digits = 1) => (v === null || v === undefined || Number.isNaN(v) ? "–" : v.toFixed(digits));
  const mean = (v) => v.reduce((a, b) => a + b, 0) / v.length;
  const spread = (v) => Math.sqrt(v.reduce((a, b) => a + (b - mean(v)) ** 2, 0) / (v.length - 1));

  // Nine stops of viridis, enough for the eye.
  const stops = [[68, 1, 84], [71, 44, 122], [59, 81, 139], [44, 113, 142], [33, 144, 141], [39, 173, 129], [92, 200, 99], [170, 220, 50], [253, 231, 37]];
  const colour = (v) => {
    const x = Math.min(0.99999, Math.max(0, v)) * (stops.length - 1), i = Math.floor(x), f = x - i;
    return stops[i].map((c, k) => Math.round(c + (stops[i + 1][k] - c) * f));
  };
  // From red over the page's own ground to blue, for differences in -1 to 1.
  const twoSided = (v) => {
    const end = v < 0 ? [178, 24, 43] : [33, 102, 172], f = Math.min(1, Math.abs(v));
    return end.map((c) => Math.round(235 + (c - 235) * f));
  };
  const heatMap = (triangle, size, label, paint = colour) => {
    const t = triangle.length;
    const canvas = el("canvas", { width: t, height: t, role: "img", "aria-label": label, style: `width:${size}px;height:${size}px` });
    const context = canvas.getContext("2d"), image = context.createImageData(t, t);
    triangle.forEach((row, i) => row.forEach((v, j) => {
      if (Number.isNaN(v)) return;
      image.data.set([...paint(v), 255], 4 * (i * t + j));
    }));
    context.putImageData(image, 0, 0);
    return canvas;
  };
  const meanMap = (cell) => {
    const triangle = rows(unpack(cell.mean)), t = triangle.length, block = Math.ceil(cell.tasks / t);
    const tasks = (i) => (block === 1 ? `task ${i + 1}` : `tasks ${i * block + 1}-${Math.min(cell.tasks, (i + 1) * block)}`);
    const readout = el("p", { class: "hint", "aria-live": "polite" }, "Rows: after each task; columns: each task. Point at a field to read it.");
    const canvas = heatMap(triangle, 280, "mean accuracy matrix");
    canvas.addEventListener("mousemove", (event) => {
      const i = Math.floor(event.offsetY / 280 * t), j = Math.floor(event.offsetX / 280 * t);
      const v = triangle[i]?.[j];
      if (v !== undefined) readout.textContent = `after ${tasks(i)}, on ${tasks(j)}: ${fixed(v * 100)} %`;
    });
    return el("div", {}, el("h3", {}, "Mean accuracy matrix"), canvas, el("div", { class: "scale" }, "0", el("i"), "100 %"), readout);
  };
  const curveOf = (text) => rows(unpack(text)).map((r) => mean(r.filter((v) => !Number.isNaN(v))) * 100);
  const curves = (cell, runs) => {
    const w = 420, h = 260, left = 34, bottom = 24;
    const x = (i, n) => left + (n === 1 ? 0 : (i / (n - 1)) * (w - left - 8)), y = (v) => h - bottom - (v / 100) * (h - bottom - 8);
    const line = (values, cls) => svg("polyline", { class: cls, points: values.map((v, i) => (Number.isNaN(v) ? null : `${x(i, values.length)},${y(v)}`)).filter(Boolean).join(" ") });
    const plot = svg("svg", { viewBox: `0 0 ${w} ${h}`, width: w, height: h, role: "img", "aria-label": "incremental accuracy" });
    for (const v of [0, 25, 50, 75, 100]) {
      plot.append(svg("line", { class: "axis", x1: left, x2: w - 8, y1: y(v), y2: y(v) }));
      const label = svg("text", { x: left - 6, y: y(v) + 3, "text-anchor": "end" });
      label.textContent = v;
      plot.append(label);
    }
    for (const [i, label] of [[0, "1"], [1, String(cell.tasks)]]) {
      const tick = svg("text", { x: x(i, 2), y: h - 8, "text-anchor": i ? "end" : "start" });
      tick.textContent = i ? `${label} tasks` : label;
      plot.append(tick);
    }
    if (cell.tasks > 1) runs.forEach((r) => plot.append(line(curveOf(r.matrix), "one")));
    plot.append(line(curveOf(cell.mean), "mean"));
    return el("div", {}, el("h3", {}, "Incremental accuracy (%)"), plot);
  };
  const table = (head, body) => el("div", { class: "scroll" }, el("table", { class: "plain" },
    el("thead", {}, el("tr", {}, ...head.map((t) => el("th", { scope: "col" }, t)))),
    el("tbody", {}, ...body.map((r) => el("tr", {}, ...r.map((t) => el("td", {}, t)))))));
  const pairs = (object) => table(["", ""], Object.entries(object).map(([k, v]) => [k, typeof v === "object" ? JSON.stringify(v) : String(v)]));
  const copy = async (button, text) => {
    const said = button.dataset.said ??= button.textContent;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "copied";
    } catch { // a page opened from a file may not use the clipboard everywhere
      const area = el("textarea", { readonly: "", rows: 8, "aria-label": "select and copy" });
      area.value = text;
      button.parentNode.append(area);
      area.select();
      button.textContent = document.execCommand("copy") ? "copied" : "select and copy";
      if (button.textContent === "copied") area.remove();
    }
    setTimeout(() => { button.textContent = said; }, 2000);
  };
  const command = (r) => {
    const text = data.commands[r.command].replace("{seed}", r.seed);
    const button = el("button", { type: "button", class: "copy", onclick: () => copy(button, text) }, "copy");
    return el("span", { class: "command" }, el("code", {}, text), button);
  };

  const open = (index) => {
    const cell = data.cells[index];
    if (!cell) return;
    const runs = cell.runs.map((r) => Object.fromEntries(RUN.map((k, i) => [k, r[i]])));
    const line = ({ key, name, title }) => {
      const v = runs.map((r) => r[key]).filter((x) => x !== null);
      const published = cell.published.filter((p) => p.metric === name)
        .map((p) => `${p.mean.toFixed(1)}${p.std === null ? "" : ` ± ${p.std.toFixed(1)}`} (${p.source})`).join("; ");
      return [title, v.length ? fixed(mean(v)) + (v.length > 1 ? ` ± ${fixed(spread(v))}` : "") : "–", String(v.length), published];
    };
    const configs = [...new Set(runs.map((r) => r.config))], facts = [...new Set(runs.map((r) => r.facts))];
    dialog.replaceChildren(
      el("button", { type: "button", class: "close", "aria-label": "Close", onclick: () => dialog.close() }, "×"),
      el("h2", { id: "detail-title" }, cell.title),
      el("p", { class: "hint" }, `${cell.n} of ${cell.expected} runs · ${cell.tasks} tasks · ${cell.protocol}`),
      table(["Metric (%)", "Mean ± std", "n", "Published"], data.metrics.map(line)),
      el("div", { class: "two" }, meanMap(cell), curves(cell, runs)),
      el("h3", {}, "Runs"),
      table(["Seed", "Matrix", ...main.map((m) => m.short), "ms/batch", "Seconds", "MB", "Run"], runs.map((r) => [
        String(r.seed), heatMap(rows(unpack(r.matrix)), 48, `matrix of seed ${r.seed}`), ...main.map((m) => fixed(r[m.key], 2)),
        fixed(r.ms), fixed(r.seconds, 0), fixed(r.mb, 0),
        el("details", {}, el("summary", {}, r.id), el("p", {}, command(r)),
          el("p", { class: "hint" }, [r.finished && `finished ${r.finished}`, r.order && `class order ${r.order}`].filter(Boolean).join(" · ")))])),
      el("details", {}, el("summary", {}, "Configuration"), ...configs.map((i) => pairs(data.configs[i]))),
      el("details", {}, el("summary", {}, "Device and versions"), ...facts.map((i) => pairs(data.facts[i]))),
    );
    if (!dialog.open) dialog.showModal();
    dialog.scrollTop = 0;
  };

  const metric = () => document.querySelector("input[name=metric]:checked");
  document.addEventListener("click", (event) => {
    const button = event.target.closest("button.cell");
    if (button) {
      open(Number(button.dataset.cell));
      const id = button.closest("td")?.id;
      if (id) history.replaceState(null, "", `#${id}`);
    }
    if (event.target === dialog) dialog.close();
    const copied = event.target.closest("button[data-copy]");
    if (copied) {
      const texts = data.texts[Number(copied.dataset.texts)];
      copy(copied, (texts[metric()?.value] ?? texts[""])[copied.dataset.copy]);
    }
  });
  dialog.addEventListener("close", () => history.replaceState(null, "", location.pathname + location.search));

  // An address names a cell, which it opens, or a section, which it unfolds.
  const visit = () => {
    const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    if (target.tagName === "DETAILS") target.open = true;
    const button = target.querySelector?.(":scope > button.cell");
    if (button) open(Number(button.dataset.cell));
    else target.scrollIntoView();
  };
  window.addEventListener("hashchange", visit);

  // Any two methods.
  const picks = ["pick-column", "pick-a", "pick-b"].map((id) => document.getElementById(id));
  const compare = () => {
    const [column, a, b] = picks.map((p) => p.value);
    const [x, y] = [a, b].map((m) => data.cells.find((c) => c.method === m && c.columns.includes(column)));
    const box = document.getElementById("pair");
    if (!x || !y || x === y) { box.replaceChildren(el("p", { class: "hint" }, "Choose two methods that ran here.")); return; }
    const of = (cell, key) => new Map(cell.runs.map((r) => [r[1], r[RUN.indexOf(key)]]).filter(([, v]) => v !== null));
    const line = ({ key, title }) => {
      const p = of(x, key), q = of(y, key);
      const d = [...p.keys()].filter((s) => q.has(s)).map((s) => p.get(s) - q.get(s));
      const signed = (v) => (v > 0 ? "+" : "") + v.toFixed(2);
      if (!d.length) return [title, "–", "no shared seeds", "", "0"];
      const half = d.length > 2 ? (data.t[d.length - 2] ?? 1.96) * spread(d) / Math.sqrt(d.length) : NaN;
      const interval = Number.isNaN(half) ? "too few seeds" : `[${signed(mean(d) - half)}, ${signed(mean(d) + half)}]`;
      return [title, signed(mean(d)), interval, `${d.filter((v) => v > 0).length} of ${d.length}`, String(d.length)];
    };
    const maps = [x, y].map((c) => rows(unpack(c.mean)));
    const gap = maps[0].map((row, i) => row.map((v, j) => v - maps[1][i][j]));
    const limit = Math.max(0.01, ...gap.flat().map((v) => Math.abs(v)).filter((v) => !Number.isNaN(v)));
    const shown = (title, canvas) => el("div", {}, el("h3", {}, title), canvas);
    box.replaceChildren(
      table(["Metric", "Difference", "95 % interval", "Above", "n"], main.map(line)),
      el("div", { class: "two" }, shown(a, heatMap(maps[0], 200, `matrix of ${a}`)), shown(b, heatMap(maps[1], 200, `matrix of ${b}`)),
        shown(`${a} − ${b}`, heatMap(gap.map((row) => row.map((v) => v / limit)), 200, "difference of the matrices", twoSided))),
      el("p", { class: "hint" }, `The difference's scale is ±${(100 * limit).toFixed(0)} points, blue where ${a} is better.`),
    );
  };
  if (picks[0]) {
    const fill = (select, names, chosen) => select.replaceChildren(...names.map((n) => el("option", n === chosen ? { selected: "" } : {}, n)));
    const refill = () => {
      const names = [...new Set(data.cells.filter((c) => c.columns.includes(picks[0].value)).map((c) => c.method))];
      const [a, b] = [picks[1].value, picks[2].value];
      fill(picks[1], names, names.includes(a) ? a : names.at(-1));
      fill(picks[2], names, names.includes(b) ? b : names.at(-2) ?? names[0]);
      compare();
    };
    fill(picks[0], [...new Set(data.cells.flatMap((c) => c.columns))]);
    picks[0].addEventListener("change", refill);
    picks.slice(1).forEach((p) => p.addEventListener("change", compare));
    refill();
  }

  for (const t of document.querySelectorAll("table.results")) {
    const body = t.tBodies[0], first = [...body.rows];
    let sorted = { column: -1, best: true };
    // The best first, whichever way is better; a second click turns it round.
    const sort = () => {
      const { column, best } = sorted, down = best === (metric().dataset.higher === "1");
      for (const b of t.querySelectorAll("button.sort")) b.removeAttribute("aria-sort");
      if (column < 0) { body.append(...first); return; }
      t.querySelector(`button.sort[data-column="${column}"]`).setAttribute("aria-sort", down ? "descending" : "ascending");
      const value = (row) => { const v = row.cells[column + 1].dataset[t.dataset.metric]; return v === "" ? NaN : Number(v); };
      const order = [...first].sort((a, b) => {
        const x = value(a), y = value(b);
        if (Number.isNaN(x) || Number.isNaN(y)) return Number.isNaN(x) - Number.isNaN(y);
        return down ? y - x : x - y;
      });
      body.append(...order);
    };
    t.addEventListener("click", (event) => {
      const button = event.target.closest("button.sort");
      if (!button) return;
      const column = Number(button.dataset.column);
      sorted = { column, best: column === sorted.column ? !sorted.best : true };
      sort();
    });
    for (const radio of document.querySelectorAll("input[name=metric]")) {
      radio.addEventListener("change", () => { t.dataset.metric = radio.value; sort(); });
    }
    t.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      const td = event.target.closest("td");
      if (!step || !td) return;
      const target = body.rows[td.parentNode.sectionRowIndex + step[0]]?.cells[td.cellIndex + step[1]]?.querySelector("button");
      if (target) { event.preventDefault(); target.focus(); }
    });
  }
  visit();
})();
