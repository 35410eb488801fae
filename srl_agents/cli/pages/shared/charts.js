"use strict";
// Line charts on uPlot: drawn when they come into view, in the theme's colours, read by mouse or arrow keys.
(() => {
  const { el, short } = SRL;
  const live = new Set(), shades = new Map(), waiting = new Set();
  SRL.onTheme(() => {
    shades.clear();
    live.forEach((plot) => plot.redraw(false, true));
  });

  function colour(name) { // a canvas knows no variables: let the browser resolve them, once per theme
    if (!shades.has(name)) {
      const probe = el("i");
      probe.style.color = `var(--${name})`;
      document.body.append(probe);
      shades.set(name, getComputedStyle(probe).color);
      probe.remove();
    }
    return shades.get(name);
  }
  const faint = (name) => colour(name).replace(/^rgb\((.*)\)$/, "rgba($1, 0.14)");

  const STEPS = [0, 1, 2, 3, 4, 5, 6, 7, 8].flatMap((power) => [1, 2, 5].map((k) => k * 10 ** power)); // of an axis of whole numbers

  // Points of all lines over one axis; uPlot wants equal lengths, null where a line has no value.
  function aligned(lines) {
    const xs = [...new Set(lines.flatMap((line) => line.x))].sort((a, b) => a - b);
    const at = new Map(xs.map((x, k) => [x, k]));
    const column = (line, values) => {
      const out = new Array(xs.length).fill(null);
      line.x.forEach((x, k) => { out[at.get(x)] = values[k]; });
      return out;
    };
    return { xs, column };
  }

  // line: { label, key, colour: 0-5, x: [], y: [], low: [], high: [], faint }; level: { label, y }
  // Lines of one key are switched on and off together; faint ones stand behind and are not read out.
  function plotOptions(spec, lines, size, hear) {
    const series = [{}], bands = [];
    for (const line of lines) {
      series.push({
        label: line.label, spanGaps: true, width: line.faint ? 1 : 2, alpha: line.faint ? 0.45 : 1,
        stroke: () => colour(`c${line.colour % 6}`), points: { show: !line.faint && line.x.length < 40, size: 5 },
      });
      if (!line.low) continue;
      const edge = { label: "", spanGaps: true, width: 0, points: { show: false }, stroke: "transparent" };
      series.push({ ...edge }, { ...edge });
      bands.push({ series: [series.length - 1, series.length - 2], fill: () => faint(`c${line.colour % 6}`) });
    }
    const axis = {
      stroke: () => colour("quiet"), grid: { stroke: () => colour("line"), width: 1 },
      ticks: { show: false }, font: "12px system-ui, sans-serif",
    };
    return {
      ...size, series, bands, legend: { show: false }, scales: { x: { time: false } },
      axes: [{ ...axis, size: 34, space: 60, incrs: STEPS }, { ...axis, size: 52, values: (_, ticks) => ticks.map(spec.yText || short) }],
      cursor: { y: false, drag: { x: false, y: false } },
      hooks: { setCursor: [hear], draw: [(plot) => levels(plot, spec.levels || [])] },
    };
  }

  function levels(plot, wanted) { // dashed lines across the whole chart, with their names
    const { ctx, bbox } = plot, ratio = devicePixelRatio;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = colour("quiet");
    ctx.lineJoin = "round";
    ctx.font = `${11 * ratio}px system-ui, sans-serif`;
    ctx.textAlign = "right";
    let lowest = Infinity; // names keep their distance from each other
    for (const { label, y } of [...wanted].sort((one, other) => one.y - other.y)) {
      const height = plot.valToPos(y, "y", true);
      if (height < bbox.top || height > bbox.top + bbox.height) continue;
      ctx.setLineDash([3 * ratio, 4 * ratio]);
      ctx.beginPath();
      ctx.moveTo(bbox.left, height);
      ctx.lineTo(bbox.left + bbox.width, height);
      ctx.stroke();
      lowest = Math.min(height - 3 * ratio, lowest - 13 * ratio);
      const text = [label.length > 22 ? label.slice(0, 21) + "…" : label, bbox.left + bbox.width - 4 * ratio, lowest];
      ctx.save(); // a halo keeps the name apart from lines
      ctx.setLineDash([]);
      ctx.lineWidth = 4 * ratio;
      ctx.strokeStyle = colour("surface");
      ctx.strokeText(...text);
      ctx.restore();
      ctx.fillText(...text);
    }
    ctx.restore();
  }

  function ranged(spec, columns) { // the scale's ends, levels included
    let low = Infinity, high = -Infinity;
    for (const y of [...columns.flat(), ...(spec.levels || []).map((level) => level.y)]) {
      if (y === null || y === undefined) continue;
      [low, high] = [Math.min(low, y), Math.max(high, y)];
    }
    if (low > high) return [0, 1];
    const flat = high - low <= 1e-9 * Math.abs(high); // sums in another order differ by rounding
    const room = flat ? Math.abs(high) * 0.1 || 1 : (high - low) * 0.06;
    return [low - room, high + room];
  }

  // spec: { title, about, lines, levels, xName, yText }
  function chart(spec) {
    const readout = el("output", { "aria-live": "polite" }, spec.about || "\u00a0");
    const frame = el("div", { class: "plot", tabindex: "0", role: "img", "aria-label": `${spec.title}, ${spec.lines.length} lines over ${spec.xName}. Arrow keys read values.` });
    const { xs, column } = aligned(spec.lines);
    const columns = spec.lines.flatMap((line) => [line.y, ...(line.low ? [line.low, line.high] : [])].map((values) => column(line, values)));
    const first = spec.lines.map((_, k) => 1 + spec.lines.slice(0, k).reduce((sum, line) => sum + (line.low ? 3 : 1), 0));
    let plot = null, drawnWide = 0;

    function tell({ cursor, series }) {
      const k = cursor.idx;
      if (k === null || k === undefined) { readout.textContent = spec.about || "\u00a0"; return; }
      const values = spec.lines.map((line, n) => ({ line, y: columns[first[n] - 1][k], shown: series[first[n]].show }));
      const parts = values.filter(({ line, y, shown }) => shown && !line.faint && y !== null && y !== undefined);
      readout.textContent = `${spec.xName} ${short(xs[k])}: ` + parts.map(({ line, y }) => `${line.label} ${(spec.yText || short)(y)}`).join(" · ");
    }

    function draw(wide) {
      const [low, high] = ranged(spec, columns);
      const options = plotOptions(spec, spec.lines, { width: wide, height: frame.clientHeight }, tell);
      options.scales.y = { range: () => [low, high] };
      plot = new uPlot(options, [xs, ...columns], frame);
      live.add(plot);
    }

    function drawNow() {
      waiting.delete(drawNow);
      if (plot || !frame.clientWidth) return;
      frame.dataset.seen = "";
      draw(drawnWide = Math.round(frame.clientWidth));
    }
    waiting.add(drawNow);

    new ResizeObserver(() => {
      const wide = Math.round(frame.clientWidth);
      if (!wide || wide === drawnWide || !frame.dataset.seen) return;
      drawnWide = wide;
      if (plot) plot.setSize({ width: wide, height: frame.clientHeight });
      else draw(wide);
    }).observe(frame);
    new IntersectionObserver((entries, observer) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      observer.disconnect();
      Promise.resolve(SRL.plotting?.()).then(() => { // a page may load the plotting library only now
        frame.dataset.seen = "";
        drawNow();
      });
    }, { rootMargin: "200px" }).observe(frame);
    frame.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity }[event.key];
      if (!step || !plot) return;
      event.preventDefault();
      const from = plot.cursor.idx ?? (step > 0 ? -1 : xs.length);
      const k = Math.max(0, Math.min(xs.length - 1, from + step));
      plot.setCursor({ left: plot.valToPos(xs[k], "x"), top: 1 });
    });

    const named = new Map(spec.lines.map((line) => [line.key ?? line.label, line]));
    const keys = [...named].map(([key, { colour: shade }]) => el("button", { type: "button", class: `c${shade % 6}`, "aria-pressed": "true", onclick: (event) => {
      if (!plot) return;
      const shown = event.currentTarget.getAttribute("aria-pressed") !== "true";
      spec.lines.forEach((line, n) => {
        if ((line.key ?? line.label) !== key) return;
        for (let k = first[n]; k < first[n] + (line.low ? 3 : 1); k++) plot.setSeries(k, { show: shown });
      });
      event.currentTarget.setAttribute("aria-pressed", String(shown));
    } }, el("i"), el("span", {}, key)));
    return el("figure", { class: "chart" }, el("figcaption", {}, el("b", { tip: spec.help }, spec.title)), readout, frame,
      keys.length > 1 ? el("div", { class: "keys", role: "group", "aria-label": "Lines" }, ...keys) : null);
  }

  SRL.drawAll = () => [...waiting].forEach((drawNow) => drawNow()); // also what was never in view
  SRL.chart = chart;
})();
