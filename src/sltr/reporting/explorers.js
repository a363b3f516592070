"use strict";
// The cross-validation surface.
(() => {
  const { data: { candidates: table }, element, number, short, sequential, rgb, css, frame, widthOf, linear, onPaint } = page;
  if (!table) return;
  const box = document.getElementById("surface"), controls = document.getElementById("surface-controls");
  const distinct = (values) => {
    const found = [...new Set(values)];
    const numbers = found.filter((v) => typeof v === "number").sort((a, b) => a - b);
    return [...numbers, ...found.filter((v) => typeof v !== "number")];
  };
  const levelsOf = (name, rows) => distinct(rows.map((row) => row[table.names.indexOf(name)]));
  const levels = Object.fromEntries(table.names.map((name) => [name, levelsOf(name, table.rows)]));
  const varying = table.names.filter((name) => levels[name].length > 1);
  const numeric = varying.filter((name) => levels[name].every((v) => typeof v === "number"));
  const first = [...new Set([...["lambda_sparse", "lambda_low"].filter((n) => varying.includes(n)), ...numeric, ...varying, ...table.names])];
  const chosen = Object.fromEntries(table.names.map((name, i) => [name, table.rows[table.chosen][i]]));
  // Grids may depend on a choice, as those of a refit do: start with the pair in
  // which most candidates surround the chosen one.
  const around = (pair) => table.rows.filter((row) => table.names.every(
    (name, k) => pair.includes(name) || row[k] === chosen[name])).length;
  const pairs = varying.length > 1 ? first.flatMap((a, i) => first.slice(i + 1).map((b) => [a, b])) : [];
  const fullest = (some) => some.reduce((best, pair) => (around(pair) > around(best) ? pair : best), some[0] ?? [first[0], null]);
  // Refinements use a name for things of their own, as the Lasso its threshold.
  const ofOneKind = fullest(pairs.filter((pair) => !pair.includes("refine")));
  const start = ofOneKind[1] && around(ofOneKind) > 1 ? ofOneKind : fullest(pairs);
  const state = { x: start[0], y: start[1], at: { ...chosen } };

  const matches = (row, fixed) => table.names.every((name, i) => !(name in fixed) || row[i] === fixed[name]);
  const find = (fixed) => {
    let best = -1;
    table.rows.forEach((row, g) => {
      if (table.mean[g] !== null && matches(row, fixed) && (best < 0 || table.mean[g] > table.mean[best])) best = g;
    });
    return best;
  };

  // Candidates in which all but some hyper-parameters have given values.
  const among = (at, ...free) => table.rows.filter((row) => table.names.every((name, i) => free.includes(name) || row[i] === at[name]));
  // A value that no candidate has beside the others takes them along.
  const set = (name, value) => {
    state.at[name] = value;
    if (among(state.at, state.x, state.y).length) return;
    const row = table.rows[find({ [name]: value })];
    if (row) state.at = Object.fromEntries(table.names.map((other, i) => [other, row[i]]));
  };

  const select = (text, values, value, change) => {
    const node = document.createElement("select"), holder = document.createElement("label");
    node.append(...values.map((v, i) => new Option(number(v), i)));
    node.value = values.indexOf(value);
    node.addEventListener("change", () => change(values[Number(node.value)]));
    holder.append(text, node);
    return holder;
  };

  const build = () => {
    const parts = [];
    if (varying.length > 2) {
      parts.push(select("across", varying, state.x, (v) => { if (v === state.y) state.y = state.x; state.x = v; build(); draw(); }),
        select("up", varying, state.y, (v) => { if (v === state.x) state.x = state.y; state.y = v; build(); draw(); }));
    }
    for (const name of varying.filter((n) => n !== state.x && n !== state.y)) {
      parts.push(select(name, levels[name], state.at[name], (v) => { set(name, v); build(); draw(); }));
    }
    controls.replaceChildren(...parts);
  };

  const heat = () => {
    const rows = among(state.at, state.x, state.y), xs = levelsOf(state.x, rows), ys = levelsOf(state.y, rows);
    const fixed = { ...state.at };
    const cells = ys.flatMap((yv, r) => xs.map((xv, c) => ({ r, c, g: find({ ...fixed, [state.x]: xv, [state.y]: yv }) }))).filter((cell) => cell.g >= 0);
    const scores = cells.map((cell) => table.mean[cell.g]).sort((a, b) => a - b);
    // A few hopeless candidates must not take all the contrast.
    const low = scores[Math.floor(0.1 * scores.length)], high = scores[scores.length - 1];
    const w = widthOf(box, 740), cell = Math.min(40, 340 / ys.length), h = Math.max(150, cell * ys.length) + 66;
    const step = Math.ceil(xs.length * 58 / (w - 92));
    const f = frame(box, { w, h, x: [-0.5, xs.length - 0.5], y: [-0.5, ys.length - 0.5],
      xTicks: xs.map((v, i) => [i, short(v)]).filter((_, i) => i % step === 0), yTicks: ys.map((v, i) => [i, short(v)]).filter((_, i) => i % Math.ceil(ys.length / 16) === 0),
      xLabel: state.x, yLabel: state.y });
    const cw = f.px(1) - f.px(0), ch = f.py(0) - f.py(1);
    for (const { r, c, g } of cells) {
      const share = high > low ? (table.mean[g] - low) / (high - low) : 1;
      const tile = element("rect", { x: f.px(c) - cw / 2 + 0.5, y: f.py(r) - ch / 2 + 0.5, width: Math.max(cw - 1, 1), height: Math.max(ch - 1, 1), rx: 2, fill: rgb(sequential(share)), class: "hit" });
      tile.append(element("title", {}, `${table.names.map((n, i) => `${n} = ${number(table.rows[g][i])}`).join("\n")}\n${table.scoring} ${number(table.mean[g])} ± ${number(table.error[g])}`));
      f.root.append(tile);
      if (g === table.chosen) {
        const star = element("text", { x: f.px(c), y: f.py(r) + 8, "text-anchor": "middle", style: "font-size:24px;fill:#fff;stroke:#000;stroke-width:2.4px;pointer-events:none", class: "chosen" }, "★");
        star.dataset.late = "1";
        f.root.append(star);
      }
    }
    f.root.append(...f.root.querySelectorAll("[data-late]"));
    const wide = Math.min(240, w - 92);
    for (let i = 0; i < wide; i += 2) f.root.append(element("rect", { x: f.left + i, y: h + 6, width: 2.5, height: 8, fill: rgb(sequential(i / wide)) }));
    f.root.append(element("text", { x: f.left, y: h + 28 }, `≤ ${short(low)}`),
      element("text", { x: f.left + wide, y: h + 28, "text-anchor": "end" }, short(high)),
      element("text", { x: f.left + wide / 2, y: h + 46, "text-anchor": "middle", class: "score-name" }, table.scoring));
    f.root.setAttribute("viewBox", `0 0 ${w} ${h + 52}`);
  };

  const line = () => {
    const xs = levelsOf(state.x, among(state.at, state.x)), found = xs.map((v) => find({ ...state.at, [state.x]: v }));
    const mean = found.map((g) => g < 0 ? null : table.mean[g]), error = found.map((g) => g < 0 ? 0 : table.error[g] || 0);
    const all = mean.flatMap((m, i) => m === null ? [] : [m - error[i], m + error[i]]);
    const y = [Math.min(...all), Math.max(...all)], w = widthOf(box, 740), step = Math.ceil(xs.length * 58 / (w - 72));
    const f = frame(box, { w, h: 300, x: [-0.3, xs.length - 0.7], y, xTicks: xs.map((v, i) => [i, short(v)]).filter((_, i) => i % step === 0), yTicks: linear(...y, 5), xLabel: state.x, yLabel: table.scoring });
    mean.forEach((m, i) => { if (m !== null) f.line([i, i], [m - error[i], m + error[i]], { stroke: css("--muted") }); });
    f.line(xs.map((_, i) => i), mean, { stroke: css("--accent") });
    found.forEach((g, i) => {
      if (g < 0) return;
      const mark = g === table.chosen
        ? element("text", { x: f.px(i), y: f.py(mean[i]) + 8, "text-anchor": "middle", style: `font-size:24px;fill:${css("--accent-2")}`, class: "chosen" }, "★")
        : element("circle", { cx: f.px(i), cy: f.py(mean[i]), r: 4, fill: css("--accent") });
      mark.append(element("title", {}, `${state.x} = ${number(xs[i])}: ${number(mean[i])} ± ${number(error[i])}`));
      f.root.append(mark);
    });
  };
  const draw = () => (state.y ? heat() : line());
  page.tuning = { levelsOf, varying, among, find, chosen, select, first };
  build();
  onPaint(draw);
})();

// The path: entries along a hyper-parameter, or the score where no path was given.
(() => {
  const { data, bytes, number, short, diverging, css, element, frame, widthOf, linear, onPaint, tuning } = page;
  const box = document.getElementById("path-chart");
  if (!box) return;
  const controls = document.getElementById("path-controls"), readout = document.getElementById("path-readout");
  const picture = document.getElementById("path-picture");
  const state = { at: 0, name: null };
  const palette = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#888888"];

  const slider = (n, change) => {
    const holder = document.createElement("label");
    const input = Object.assign(document.createElement("input"), { type: "range", min: 0, max: n - 1, step: 1, value: state.at, id: "path-slider" });
    holder.className = "grow";
    input.addEventListener("input", () => { state.at = Number(input.value); change(); });
    holder.append("place", input);
    return holder;
  };

  const cursor = (f, x, y) => f.line([x, x], y, { stroke: css("--fg"), "stroke-dasharray": "5 4", "stroke-width": 1.3, class: "cursor" });

  const coefficientPath = () => {
    const path = data.path, n = path.values.length, places = path.values.map((_, i) => i);
    const pictures = new Int8Array(bytes(path.pictures).buffer), [rows, columns] = path.pictureShape;
    const nearest = path.chosen === null ? 0
      : places.reduce((a, b) => Math.abs(path.values[b] - path.chosen) < Math.abs(path.values[a] - path.chosen) ? b : a);
    state.at = nearest;
    const draw = () => {
      const all = path.traces.flat().concat(0), y = [Math.min(...all), Math.max(...all)];
      const w = widthOf(box, 600), step = Math.ceil(n * 58 / (w - 72));
      const f = frame(box, { w, h: 320, x: [0, Math.max(n - 1, 1)], y, xTicks: places.filter((i) => i % step === 0).map((i) => [i, short(path.values[i])]), yTicks: linear(...y, 5), xLabel: path.name, yLabel: "coefficient" });
      path.traces.forEach((trace, i) => f.line(places, trace, { stroke: palette[i % palette.length], "stroke-width": 1.3, "stroke-opacity": 0.85 }));
      cursor(f, state.at, y);
      picture.hidden = false;
      picture.width = columns;
      picture.height = rows;
      const scale = Math.min(300 / columns, 300 / rows), image = new ImageData(columns, rows);
      picture.style.width = `${Math.round(columns * scale)}px`;
      picture.style.height = `${Math.max(24, Math.round(rows * scale))}px`;
      for (let i = 0; i < rows * columns; i += 1) image.data.set([...diverging(pictures[state.at * rows * columns + i] / 127), 255], 4 * i);
      picture.getContext("2d").putImageData(image, 0, 0);
      readout.textContent = `${path.name} = ${number(path.values[state.at])}: ${path.nonzero[state.at]} of ${path.nEntries} entries not zero, `
        + `ranks ${path.ranks[state.at].join(" · ")}${state.at === nearest && path.chosen !== null ? " (nearest to the chosen)" : ""}`;
    };
    controls.replaceChildren(slider(n, draw));
    onPaint(draw);
  };

  const scorePath = () => {
    const table = data.candidates, { levelsOf, varying, among, find, chosen, select, first } = tuning;
    // Candidates of the chosen refinement alone share an axis.
    const kind = "refine" in chosen ? { refine: chosen.refine } : {};
    const levels = Object.fromEntries(table.names.map((name) => {
      const { [name]: _, ...rest } = kind;
      const rows = table.rows.filter((row) => Object.keys(rest).every((key) => row[table.names.indexOf(key)] === rest[key]));
      return [name, levelsOf(name, rows)];
    }));
    const names = varying.filter((name) => levels[name].length > 1);
    const around = (name) => levelsOf(name, among(chosen, name)).length;
    state.name = first.reduce((best, name) => (around(name) > around(best) ? name : best));
    const draw = () => {
      const xs = levels[state.name], places = xs.map((_, i) => i);
      const same = xs.map((v) => find({ ...chosen, [state.name]: v })), best = xs.map((v) => find({ ...kind, [state.name]: v }));
      const mean = (g) => g < 0 ? null : table.mean[g], error = (g) => g < 0 ? 0 : table.error[g] || 0;
      const all = [...same.flatMap((g) => g < 0 ? [] : [mean(g) - error(g), mean(g) + error(g)]), ...best.map(mean).filter((v) => v !== null)];
      const y = [Math.min(...all), Math.max(...all)], w = widthOf(box, 600), step = Math.ceil(xs.length * 58 / (w - 72));
      const f = frame(box, { w, h: 320, x: [0, Math.max(xs.length - 1, 1)], y, xTicks: places.filter((i) => i % step === 0).map((i) => [i, short(xs[i])]), yTicks: linear(...y, 5), xLabel: state.name, yLabel: table.scoring });
      const up = places.filter((i) => same[i] >= 0);
      f.line([...up, ...[...up].reverse()], [...up.map((i) => mean(same[i]) + error(same[i])), ...[...up].reverse().map((i) => mean(same[i]) - error(same[i]))], { stroke: "none", fill: css("--accent"), "fill-opacity": 0.16 });
      f.line(places, best.map(mean), { stroke: css("--accent-2"), "stroke-dasharray": "6 4", class: "at-best" });
      f.line(places, same.map(mean), { stroke: css("--accent"), "stroke-width": 2.2, class: "as-chosen" });
      // A single value makes no line.
      for (const i of up) f.root.append(element("circle", { cx: f.px(i), cy: f.py(mean(same[i])), r: 4, fill: css("--accent"), class: "as-chosen" }));
      cursor(f, state.at, y);
      const g = same[state.at], b = best[state.at];
      readout.textContent = `${state.name} = ${number(xs[state.at])}: ${g < 0 ? "no candidate" : `${number(mean(g))} ± ${number(table.error[g])}`} with the others as chosen; `
        + `at best ${number(mean(b))}${b < 0 ? "" : ` (${table.names.map((n, i) => [n, table.rows[b][i]]).filter(([n, v]) => n !== state.name && varying.includes(n) && v !== "–").map(([n, v]) => `${n} = ${number(v)}`).join(", ") || "nothing else varies"})`}`;
    };
    const build = () => {
      state.at = levels[state.name].indexOf(chosen[state.name]);
      const parts = names.length > 1 ? [select("along", names, state.name, (v) => { state.name = v; build(); draw(); })] : [];
      controls.replaceChildren(...parts, slider(levels[state.name].length, draw));
    };
    build();
    onPaint(draw);
  };

  if (data.path) coefficientPath(); else scorePath();
})();

// The convergence measure against iterations, on a logarithmic scale.
(() => {
  const { data: { convergence }, frame, widthOf, linear, power, css, element, onPaint } = page;
  const box = document.getElementById("convergence");
  if (!box) return;
  onPaint(() => {
    const points = convergence.values.map((v, i) => [convergence.iterations[i], v]).filter(([, v]) => v !== null && v > 0);
    if (points.length < 2) { box.hidden = true; return; }
    const logs = points.map(([, v]) => Math.log10(v));
    const bound = convergence.bounded && convergence.tol;
    const all = bound ? [...logs, Math.log10(bound)] : logs;
    const y = [Math.floor(Math.min(...all)), Math.ceil(Math.max(...all))], x = [0, points[points.length - 1][0]];
    const step = Math.ceil((y[1] - y[0]) / 6) || 1;
    const yTicks = [];
    for (let k = y[0]; k <= y[1]; k += step) yTicks.push([k, power(k)]);
    const f = frame(box, { w: widthOf(box, 560), h: 280, x, y, xTicks: linear(...x, 5), yTicks, xLabel: "iteration", yLabel: convergence.historyName });
    f.line(points.map(([i]) => i), logs, { stroke: css("--accent") });
    if (bound) {
      const tol = Math.log10(bound);
      f.line(x, [tol, tol], { stroke: css("--accent-2"), "stroke-dasharray": "6 4" });
      f.root.append(element("text", { x: f.w - f.right, y: f.py(tol) - 6, "text-anchor": "end" }, "tolerance"));
    }
  });
})();
