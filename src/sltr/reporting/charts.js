"use strict";
// What all pictures on the page share: data, colours, small SVG charts.
const page = (() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const painters = [];
  const root = document.documentElement;

  const isDark = () => dark.matches && !root.classList.contains("printing");
  const repaint = () => painters.forEach((paint) => paint());
  const onPaint = (paint) => { painters.push(paint); paint(); };
  dark.addEventListener("change", repaint);
  window.addEventListener("beforeprint", () => {
    root.classList.add("printing");
    document.querySelectorAll("details").forEach((box) => { box.open = true; });
    repaint();
  });
  window.addEventListener("afterprint", () => { root.classList.remove("printing"); repaint(); });
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (window.innerWidth !== width) { width = window.innerWidth; repaint(); }
  });

  const bytes = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const css = (name) => getComputedStyle(root).getPropertyValue(name).trim();

  const number = (value) => {
    if (value === null || value === undefined || Number.isNaN(value)) return "–";
    if (typeof value !== "number") return String(value);
    const size = Math.abs(value);
    const [digits, exponent] = value.toExponential(2).split("e").map(Number);
    const text = size !== 0 && (size < 1e-3 || size >= 1e5)
      ? `${digits}e${exponent}` : String(Number(value.toPrecision(4)));
    return text.replace(/-/g, "−");
  };

  const short = (value) => number(typeof value === "number" ? Number(value.toPrecision(3)) : value);
  const power = (k) => `10${[...String(k)].map((c) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[c] || "⁻").join("")}`;

  const mix = (stops, share) => {
    const place = Math.min(Math.max(share, 0), 1) * (stops.length - 1);
    const low = Math.min(Math.floor(place), stops.length - 2);
    const part = place - low;
    return stops[low].map((v, c) => v + part * (stops[low + 1][c] - v));
  };
  const rgb = (colour) => `rgb(${colour.map(Math.round).join(" ")})`;
  // On a dark page zero is dark, so that strong entries shine.
  const darkStops = [[120, 200, 255], [58, 148, 214], [38, 92, 142], [30, 52, 76], [26, 32, 39],
    [74, 46, 36], [142, 68, 42], [218, 104, 62], [255, 172, 128]];
  const diverging = (share) => mix(isDark() ? darkStops : data.coef.stops, (share + 1) / 2);
  const sequentialStops = [[0, 34, 78], [26, 56, 111], [67, 78, 108], [104, 103, 112],
    [142, 130, 116], [184, 158, 106], [223, 190, 80], [254, 232, 56]];
  const sequential = (share) => mix(sequentialStops, share);

  const element = (tag, attributes = {}, ...children) => {
    // The name of a namespace, which nobody loads.
    const node = document.createElementNS("http" + "://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    for (const child of children) {
      node.append(typeof child === "object" ? child : document.createTextNode(child));
    }
    return node;
  };

  const ticks = (low, high, count = 5) => {
    const raw = (high - low) / count || 1;
    const power = 10 ** Math.floor(Math.log10(raw));
    const step = [1, 2, 2.5, 5, 10].map((m) => m * power).find((s) => s >= raw * 0.999);
    const found = [];
    for (let k = Math.ceil(low / step - 1e-9); k * step <= high + 1e-9 * step; k += 1) {
      found.push(Number((k * step).toPrecision(12)));
    }
    return found;
  };

  // A frame with axes: x and y map values to pixels; ticks are [value, text] pairs.
  // One unit is one pixel, so that text has the same size on every screen.
  const frame = (box, { w, h, x, y, xTicks, yTicks, xLabel, yLabel }) => {
    const longest = Math.max(...yTicks.map(([, text]) => text.length));
    const top = 12, right = 14, bottom = 46, left = Math.max(52, 36 + 7 * longest);
    const px = (v) => left + (v - x[0]) / ((x[1] - x[0]) || 1) * (w - left - right);
    const py = (v) => h - bottom - (v - y[0]) / ((y[1] - y[0]) || 1) * (h - top - bottom);
    const root = element("svg", { viewBox: `0 0 ${w} ${h}`, width: w, role: "img", "aria-label": `${yLabel} against ${xLabel}` });
    for (const [value, text] of yTicks) {
      root.append(element("line", { x1: left, x2: w - right, y1: py(value), y2: py(value), class: "axis" }),
        element("text", { x: left - 8, y: py(value) + 4, "text-anchor": "end" }, text));
    }
    for (const [value, text] of xTicks) {
      root.append(element("line", { x1: px(value), x2: px(value), y1: h - bottom, y2: h - bottom + 5, class: "axis" }),
        element("text", { x: px(value), y: h - bottom + 18, "text-anchor": "middle" }, text));
    }
    root.append(element("text", { x: (left + w - right) / 2, y: h - 6, "text-anchor": "middle", class: "strong" }, xLabel),
      element("text", { transform: `translate(13 ${(top + h - bottom) / 2}) rotate(-90)`, "text-anchor": "middle", class: "strong" }, yLabel));
    box.replaceChildren(root);
    // Places without a value are passed over.
    const line = (xs, ys, attributes) => {
      let d = "";
      xs.forEach((v, i) => {
        if (ys[i] !== null) d += `${d ? "L" : "M"}${px(v).toFixed(1)} ${py(ys[i]).toFixed(1)}`;
      });
      const node = element("path", { d, fill: "none", "stroke-width": 1.8, "stroke-linejoin": "round", ...attributes });
      root.append(node);
      return node;
    };
    return { root, px, py, line, w, h, left, right, top, bottom };
  };

  const widthOf = (box, most = 520) => Math.max(240, Math.min(most, box.clientWidth || most));
  const linear = (low, high, count) => ticks(low, high, count).map((v) => [v, short(v)]);

  const copyButtons = () => document.querySelectorAll("[data-copy]").forEach((button) => {
    button.addEventListener("click", () => {
      const source = document.getElementById(button.dataset.copy);
      const range = document.createRange();
      range.selectNodeContents(source);
      const selection = window.getSelection();
      selection.removeAllRanges();
      selection.addRange(range);
      const done = () => {
        button.textContent = "Copied";
        setTimeout(() => { button.textContent = "Copy"; }, 1500);
      };
      // A page opened as a file may not use the clipboard: the text stays selected.
      if (navigator.clipboard) navigator.clipboard.writeText(source.textContent).then(done, () => {});
      else if (document.execCommand("copy")) done();
    });
  });
  copyButtons();

  return { data, onPaint, bytes, css, number, short, power, diverging, sequential, rgb, element, frame, ticks, widthOf, linear };
})();

// Predictions against the truth, or the ROC and the confusion matrix.
(() => {
  const { data: { outcome }, frame, widthOf, linear, element, number, css, onPaint } = page;
  const box = document.getElementById("outcome");

  const scatter = () => {
    const all = [...outcome.y, ...outcome.predicted, outcome.null, ...(outcome.bounds || []).flat()].filter((v) => v !== null);
    const low = Math.min(...all), high = Math.max(...all), pad = 0.05 * (high - low) || 0.5;
    const range = [low - pad, high + pad];
    const w = widthOf(box, 440);
    const f = frame(box, { w, h: 0.92 * w, x: range, y: range, xTicks: linear(...range, 4), yTicks: linear(...range, 5),
      xLabel: `true ${outcome.label}`, yLabel: `predicted ${outcome.label}` });
    f.line(range, range, { stroke: css("--muted"), "stroke-width": 1.2 });
    f.line(range, [outcome.null, outcome.null], { stroke: css("--accent-2"), "stroke-dasharray": "6 4" });
    const opacity = Math.min(0.8, Math.max(0.2, 150 / outcome.y.length));
    const ends = (i) => outcome.bounds && outcome.bounds.map((end) => end[i]);
    outcome.y.forEach((v, i) => {
      const pair = ends(i);
      if (pair && !pair.includes(null)) f.line([v, v], pair, { stroke: css("--accent"), "stroke-opacity": opacity / 2 });
      const point = element("circle", { cx: f.px(v), cy: f.py(outcome.predicted[i]), r: 3.6, fill: css("--accent"), "fill-opacity": opacity });
      point.append(element("title", {}, `true ${number(v)}, predicted ${number(outcome.predicted[i])}${pair ? `, 90 % interval ${number(pair[0])} to ${number(pair[1])}` : ""}`));
      f.root.append(point);
    });
    f.root.append(element("text", { x: f.w - f.right - 4, y: f.py(outcome.null) - 6, "text-anchor": "end" }, "null model"));
  };

  const roc = () => {
    const w = widthOf(box, 440);
    const f = frame(box, { w, h: 0.92 * w, x: [0, 1], y: [0, 1], xTicks: linear(0, 1, 5), yTicks: linear(0, 1, 5),
      xLabel: "false positive rate", yLabel: "true positive rate" });
    f.line([0, 1], [0, 1], { stroke: css("--accent-2"), "stroke-dasharray": "6 4" });
    f.line(...outcome.roc, { stroke: css("--accent"), "stroke-width": 2.4 });
  };

  const confusion = () => {
    const table = document.createElement("table");
    const head = table.insertRow();
    head.append(Object.assign(document.createElement("th"), { textContent: "true \\ predicted" }));
    for (const name of outcome.classes) head.append(Object.assign(document.createElement("th"), { textContent: name }));
    outcome.counts.forEach((row, i) => {
      const line = table.insertRow(), total = row.reduce((a, b) => a + b, 0) || 1;
      line.append(Object.assign(document.createElement("th"), { textContent: outcome.classes[i] }));
      row.forEach((count) => {
        const cell = line.insertCell();
        cell.textContent = count;
        cell.style.background = `color-mix(in srgb, var(--accent) ${Math.round(45 * count / total)}%, transparent)`;
      });
    });
    const holder = document.createElement("div");
    holder.className = "scroll";
    holder.append(table);
    document.getElementById("confusion").replaceChildren(holder);
  };

  onPaint(() => {
    box.replaceChildren();
    if (outcome.kind === "regression") { scatter(); return; }
    if (outcome.roc) roc();
    if (outcome.classes.length <= 20) confusion();
  });
})();
