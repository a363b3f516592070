"use strict";
// The slice browser: any two modes as an image, a slider for each of the others.
(() => {
  const { data: { coef }, bytes, css, number, short, ticks, diverging, rgb, onPaint } = page;
  const at = (id) => document.getElementById(id);
  const order = coef.shape.length;
  const size = coef.shape.reduce((a, b) => a * b, 1);
  const values = new Int16Array(bytes(coef.data).buffer);
  // Entries outside a mask are marked by a number that no coefficient has.
  const outside = Uint8Array.from(values, (v) => v === -32768 ? 1 : 0);
  values.forEach((_, i) => { if (outside[i]) values[i] = 0; });
  const sample = coef.sample === null ? null : bytes(coef.sample);
  const strides = coef.shape.map((_, m) => coef.shape.slice(m + 1).reduce((a, b) => a * b, 1));
  const state = { show: [...coef.show], at: [...coef.at], target: 0, threshold: 0, overlay: false, own: false, pointer: null };
  const canvas = at("slice"), context = canvas.getContext("2d");
  const label = (m) => coef.names[m] + (coef.units[m] ? ` (${coef.units[m]})` : "");
  const free = () => coef.shape.map((_, m) => m).filter((m) => order > 1 ? !state.show.includes(m) : false);
  const full = (m, index) => index * coef.steps[m];
  // Where a slice lies: its coordinate, or its index if the mode has none.
  const where = (m, index) => coef.coords[m] ? number(coef.coords[m].values[full(m, index)]) : String(full(m, index));
  const unit = (m) => coef.coords[m] && coef.units[m] ? ` ${coef.units[m]}` : "";
  const place = (m, index) => `${coef.names[m]}${/\d$/.test(coef.names[m]) ? ":" : ""} ${where(m, index)}${unit(m)}`;

  const offset = () => free().reduce((sum, m) => sum + state.at[m] * strides[m], 0);
  const entry = (row, column) => order === 1
    ? column : offset() + row * strides[state.show[0]] + column * strides[state.show[1]];
  const ownLimit = () => coef.limits[state.target];
  const value = (index) => values[state.target * size + index] / 32767 * ownLimit();
  const rowCount = () => order === 1 ? 1 : coef.shape[state.show[0]];
  const columnCount = () => coef.shape[order === 1 ? 0 : state.show[1]];

  const sliceLimit = () => {
    if (!state.own) return ownLimit();
    let largest = 0;
    for (let r = 0; r < rowCount(); r += 1) {
      for (let c = 0; c < columnCount(); c += 1) largest = Math.max(largest, Math.abs(value(entry(r, c))));
    }
    return largest || ownLimit();
  };

  // The share of the squared coefficient in every slice of every mode.
  let weights = [];
  const weigh = () => {
    weights = coef.shape.map((n) => new Float64Array(n));
    for (let i = 0; i < size; i += 1) {
      const square = values[state.target * size + i] ** 2;
      if (square) for (let m = 0; m < order; m += 1) weights[m][Math.floor(i / strides[m]) % coef.shape[m]] += square;
    }
  };

  let plot = null;
  const layout = () => {
    const ratio = window.devicePixelRatio || 1, width = canvas.parentElement.clientWidth;
    const bottom = 40, top = 4, right = 4, rows = rowCount(), columns = columnCount();
    const words = order > 1 && coef.coords[state.show[0]] ? placeTicks(state.show[0], rows, 260, false).map(([, text]) => text.length) : [];
    const left = Math.max(46, 26 + 7 * Math.max(0, ...words));
    let w = width - left - right, h = order === 1 ? 240 : w * rows / columns;
    const equal = order > 1 && Math.max(rows, columns) <= 6 * Math.min(rows, columns);
    const tallest = Math.min(520, Math.max(260, window.innerHeight * 0.7));
    if (h > tallest) { if (equal) w *= tallest / h; h = tallest; }
    if (h < 120) h = 120;
    // The ratio holds when printing narrows the page after the picture is drawn.
    canvas.style.aspectRatio = `${width} / ${h + top + bottom}`;
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round((h + top + bottom) * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const x = left + (width - left - right - w) / 2;
    plot = { x, y: top, w, h, rows, columns, width, left };
  };

  const paintImage = (limit) => {
    const { rows, columns } = plot, image = new ImageData(columns, rows);
    const over = state.overlay && sample;
    for (let r = 0; r < rows; r += 1) {
      for (let c = 0; c < columns; c += 1) {
        const index = entry(r, c), v = value(index), share = v / limit;
        const shown = Math.abs(v) > 0 && Math.abs(v) >= state.threshold * ownLimit();
        let colour = outside[state.target * size + index] ? [217, 217, 217] : diverging(shown ? share : 0);
        if (over) {
          const grey = sample[index], alpha = shown ? Math.min(1, 0.25 + 0.75 * Math.sqrt(Math.abs(share))) : 0;
          colour = colour.map((part) => alpha * part + (1 - alpha) * grey);
        }
        image.data.set([...colour, 255], 4 * (r * columns + c));
      }
    }
    const small = document.createElement("canvas");
    small.width = columns;
    small.height = rows;
    small.getContext("2d").putImageData(image, 0, 0);
    context.imageSmoothingEnabled = false;
    context.drawImage(small, plot.x, plot.y, plot.w, plot.h);
  };

  const paintLine = (limit) => {
    const zero = plot.y + plot.h / 2, step = plot.w / plot.columns;
    for (let c = 0; c < plot.columns; c += 1) {
      const v = value(c);
      if (Math.abs(v) < state.threshold * ownLimit()) continue;
      context.fillStyle = css(v > 0 ? "--accent-2" : "--accent");
      const height = -v / limit * plot.h * 0.48;
      context.fillRect(plot.x + c * step, zero, Math.max(step * 0.8, 1), height);
    }
    context.fillStyle = css("--muted");
    context.fillRect(plot.x, zero - 0.5, plot.w, 1);
    context.textAlign = "right";
    context.fillText(number(limit), plot.x - 6, plot.y + 0.02 * plot.h + 6);
    context.fillText("0", plot.x - 6, zero);
    context.fillText(number(-limit), plot.x - 6, plot.y + 0.98 * plot.h - 6);
  };

  const indexTicks = (m, n, pixels, room) => {
    const step = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 5000].find((s) => pixels * s / n >= room) || n;
    return Array.from({ length: Math.ceil(n / step) }, (_, k) => [k * step, where(m, k * step)]);
  };

  // Round numbers among many coordinates in even steps; else those of slices.
  const placeTicks = (m, n, pixels, across) => {
    const known = coef.coords[m];
    if (!known) return indexTicks(m, n, pixels, 42);
    const shown = Array.from({ length: n }, (_, k) => known.values[full(m, k)]);
    const longest = Math.max(...shown.map((v) => number(v).length));
    const room = across ? Math.max(42, 8 * longest + 10) : 24;
    if (!known.even || n <= 8) return indexTicks(m, n, pixels, room);
    const up = shown[n - 1] > shown[0], low = up ? shown[0] : shown[n - 1], high = up ? shown[n - 1] : shown[0];
    return ticks(low, high, Math.max(2, Math.min(7, Math.floor(pixels / room)))).map((v) => {
      const after = shown.findIndex((s) => up ? s >= v : s <= v), before = Math.max(0, after - 1);
      const part = after === before ? 0 : (v - shown[before]) / (shown[after] - shown[before]);
      return [before + part * (after - before), short(v)];
    });
  };

  const paintAxes = () => {
    const { x, y, w, h, rows, columns } = plot;
    const modes = order === 1 ? [0, 0] : state.show;
    context.font = "12px system-ui, sans-serif";
    context.fillStyle = css("--muted");
    context.textBaseline = "middle";
    context.textAlign = "center";
    for (const [c, text] of placeTicks(modes[1], columns, w, true)) {
      const most = plot.width - context.measureText(text).width / 2;
      context.fillText(text, Math.min(most, x + (c + 0.5) * w / columns), y + h + 12);
    }
    context.fillStyle = css("--fg");
    context.fillText(label(modes[1]), x + w / 2, y + h + 30);
    if (order === 1) return;
    context.fillStyle = css("--muted");
    context.textAlign = "right";
    for (const [r, text] of placeTicks(modes[0], rows, h, false)) context.fillText(text, x - 6, y + (r + 0.5) * h / rows);
    context.fillStyle = css("--fg");
    context.save();
    context.translate(Math.max(8, x - plot.left + 8), y + h / 2);
    context.rotate(-Math.PI / 2);
    context.textAlign = "center";
    context.fillText(label(modes[0]), 0, 0);
    context.restore();
    context.strokeStyle = css("--line");
    context.strokeRect(x + 0.5, y + 0.5, w - 1, h - 1);
  };

  const paintBar = (limit) => {
    const bar = at("bar"), ratio = window.devicePixelRatio || 1, ink = bar.getContext("2d");
    bar.hidden = order === 1;
    if (bar.hidden) return;
    bar.style.aspectRatio = `${plot.width} / 44`;
    bar.width = Math.round(plot.width * ratio);
    bar.height = Math.round(44 * ratio);
    ink.setTransform(ratio, 0, 0, ratio, 0, 0);
    const x = plot.x, w = plot.w;
    for (let i = 0; i < w; i += 1) {
      const share = 2 * i / (w - 1) - 1;
      const hidden = Math.abs(share) * limit < state.threshold * ownLimit();
      ink.fillStyle = rgb(diverging(hidden ? 0 : share));
      ink.fillRect(x + i, 6, 1.5, 12);
    }
    ink.font = "12px system-ui, sans-serif";
    ink.fillStyle = css("--muted");
    [[0, "left", number(-limit)], [0.5, "center", coef.measures[state.target]], [1, "right", number(limit)]].forEach(([share, align, text]) => {
      ink.textAlign = align;
      ink.fillText(text, x + share * w, 34);
    });
  };

  const paintWeights = () => document.querySelectorAll("#sliders canvas").forEach((strip) => {
    const mode = Number(strip.dataset.mode), share = weights[mode], ratio = window.devicePixelRatio || 1;
    const ink = strip.getContext("2d"), largest = Math.max(...share) || 1;
    strip.width = Math.round(strip.clientWidth * ratio);
    strip.height = Math.round(26 * ratio);
    ink.setTransform(ratio, 0, 0, ratio, 0, 0);
    // The thumb of a slider does not reach the ends: 8 pixels on either side.
    const span = strip.clientWidth - 16, n = share.length, step = n > 1 ? span / (n - 1) : span;
    share.forEach((part, i) => {
      const height = Math.max(1, 24 * part / largest);
      ink.fillStyle = css(i === state.at[mode] ? "--accent-2" : "--accent");
      ink.globalAlpha = i === state.at[mode] ? 1 : 0.55;
      ink.fillRect(8 + i * step - Math.max(step * 0.4, 0.5), 26 - height, Math.max(step * 0.8, 1), height);
    });
  });

  const describe = () => {
    const places = free().map((m) => place(m, state.at[m]));
    const measure = coef.measures[state.target], cut = places.length ? places.join(", ") : `the whole ${measure}`;
    canvas.setAttribute("aria-label", `${measure[0].toUpperCase()}${measure.slice(1)}, ${cut}`);
    if (!state.pointer) { at("readout").textContent = cut[0].toUpperCase() + cut.slice(1); return; }
    const [r, c] = state.pointer, modes = order === 1 ? [0, 0] : state.show;
    const spots = order === 1 ? [place(0, c)] : [...places, place(modes[0], r), place(modes[1], c)];
    const index = entry(r, c), text = outside[state.target * size + index] ? "outside the mask" : number(Number(value(index).toPrecision(3)));
    at("readout").textContent = `${spots.join(", ")} → ${text}`;
  };

  const draw = () => {
    layout();
    context.clearRect(0, 0, canvas.width, canvas.height);
    const limit = sliceLimit();
    context.font = "12px system-ui, sans-serif";
    if (order === 1) paintLine(limit); else paintImage(limit);
    paintAxes();
    paintBar(limit);
    paintWeights();
    describe();
  };

  const buildSliders = () => at("sliders").replaceChildren(...free().map((mode) => {
    const box = document.createElement("div"), title = document.createElement("label");
    const out = document.createElement("output"), strip = document.createElement("canvas");
    const input = Object.assign(document.createElement("input"),
      { type: "range", min: 0, max: coef.shape[mode] - 1, step: 1, value: state.at[mode], id: `mode-${mode}` });
    box.className = "slider";
    strip.dataset.mode = mode;
    strip.setAttribute("aria-hidden", "true");
    strip.title = "The share of the squared coefficient in every slice";
    title.htmlFor = input.id;
    const last = coef.shape[mode] - 1, range = coef.coords[mode] ? `${where(mode, 0)} to ${where(mode, last)}` : `0–${coef.fullShape[mode] - 1}`;
    title.append(`${label(mode)}${/\d$/.test(label(mode)) ? ":" : ""} `, out, ` of ${range}`);
    out.value = where(mode, state.at[mode]);
    input.addEventListener("input", () => {
      state.at[mode] = Number(input.value);
      out.value = where(mode, state.at[mode]);
      draw();
    });
    box.append(title, strip, input);
    return box;
  }));

  const move = (which, step) => {
    const mode = free()[which];
    if (mode === undefined) return false;
    const input = at(`mode-${mode}`);
    input.value = Math.min(coef.shape[mode] - 1, Math.max(0, state.at[mode] + step));
    input.dispatchEvent(new Event("input"));
    return true;
  };

  const peak = () => {
    let best = 0;
    for (let i = 0; i < size; i += 1) {
      if (Math.abs(values[state.target * size + i]) > Math.abs(values[state.target * size + best])) best = i;
    }
    coef.shape.forEach((n, m) => { state.at[m] = Math.floor(best / strides[m]) % n; });
    buildSliders();
    draw();
  };

  const setThreshold = (percent) => {
    const clean = Math.min(100, Math.max(0, percent));
    at("threshold").value = clean;
    at("threshold-out").value = `${clean} %`;
    state.threshold = clean / 100;
    draw();
  };

  const toggleOverlay = () => {
    if (!sample || order === 1) return;
    state.overlay = !state.overlay;
    at("overlay").checked = state.overlay;
    draw();
  };

  const keys = {
    ArrowRight: () => move(0, 1), ArrowLeft: () => move(0, -1), ArrowUp: () => move(1, 1), ArrowDown: () => move(1, -1),
    ".": () => setThreshold(Math.round(100 * state.threshold) + 5), ",": () => setThreshold(Math.round(100 * state.threshold) - 5),
    o: toggleOverlay, p: peak,
  };
  canvas.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || !keys[event.key]) return;
    if (keys[event.key]() !== false) event.preventDefault();
  });

  const point = (event) => {
    const c = Math.floor((event.offsetX - plot.x) / plot.w * plot.columns);
    const r = Math.floor((event.offsetY - plot.y) / plot.h * plot.rows);
    state.pointer = c >= 0 && c < plot.columns && r >= 0 && r < plot.rows ? [r, c] : null;
    describe();
  };
  canvas.addEventListener("pointermove", point);
  canvas.addEventListener("pointerdown", point);
  canvas.addEventListener("pointerleave", () => { state.pointer = null; describe(); });

  const option = (text, index) => new Option(text, index);
  if (coef.targets.length > 1) {
    at("target-box").hidden = false;
    at("target-name").textContent = coef.choice;
    at("target").append(...coef.targets.map(option));
    at("target").addEventListener("change", () => { state.target = Number(at("target").value); weigh(); draw(); });
  }
  if (order > 2) {
    at("modes-box").hidden = false;
    ["rows", "columns"].forEach((id, place) => {
      at(id).append(...coef.names.map(option));
      at(id).addEventListener("change", () => {
        const mode = Number(at(id).value);
        if (state.show[1 - place] === mode) state.show[1 - place] = state.show[place];
        state.show[place] = mode;
        state.pointer = null;
        at("rows").value = state.show[0];
        at("columns").value = state.show[1];
        buildSliders();
        draw();
      });
      at(id).value = state.show[place];
    });
  }
  at("peak").parentElement.hidden = order < 3;
  at("slice-keys").hidden = order < 3;
  at("overlay-key").hidden = !sample || order === 1;
  at("own-scale").parentElement.hidden = order < 3;
  at("peak").addEventListener("click", peak);
  at("overlay-box").hidden = !sample || order === 1;
  at("threshold").addEventListener("input", () => setThreshold(Number(at("threshold").value)));
  at("overlay").addEventListener("change", toggleOverlay);
  at("own-scale").addEventListener("change", () => { state.own = at("own-scale").checked; draw(); });
  at("controls").addEventListener("submit", (event) => event.preventDefault());
  at("coef-note").textContent = `${coef.fullShape.join(" × ")} entries. `
    + (order > 1 && outside.includes(1) ? "Grey: outside the mask. " : "")
    + (order > 2 ? "Bars above a slider show which slices hold the weight. " : "")
    + (coef.steps.some((s) => s > 1) ? `Shown at reduced resolution (${coef.shape.join(" × ")}): the strongest of neighbouring entries.` : "");

  weigh();
  buildSliders();
  onPaint(draw);
})();
