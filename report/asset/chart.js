(function () {
"use strict";
const charts = JSON.parse(document.getElementById("charts").textContent);
const root = document.documentElement;
const height = {plain: 280, small: 190};
const font = '12px system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif';
let ink = {}, plots = [];

function readInk() {
	const style = getComputedStyle(root), v = n => style.getPropertyValue("--" + n).trim();
	ink = {text: v("ink"), dim: v("dim"), grid: v("grid"), rule: v("rule"), paper: v("paper"),
		warn: v("warn"), bad: v("bad"), note: v("dim"), mark: v("mark"), series: []};
	for (let i = 0; i < 8; i++) ink.series.push(v("s" + i));
}

function number(v, digits = 4) {
	const a = Math.abs(v);
	if (a >= 1e6) return +(v / 1e6).toPrecision(digits) + " M";
	if (a >= 1e4) return +(v / 1e3).toPrecision(digits) + " k";
	return String(+v.toPrecision(digits));
}
// labels has as many digits as it takes to tell an axis' ticks apart.
function labels(v) {
	for (let digits = 4; ; digits++) {
		const all = v.map(t => t == null ? null : number(t, digits));
		if (digits == 9 || all.every((s, i) => s == null || s != all[i - 1])) return all;
	}
}
function clock(v) {
	if (v < 0) return "−" + clock(-v);
	const s = Math.floor(v), m = Math.floor(s / 60);
	return m + ":" + String(s - 60 * m).padStart(2, "0") + (v - s >= 0.05 ? "." + Math.floor((v - s) * 10) : "");
}
const timeSteps = [0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400];

// Rounds and streams are counted: there is none between 1 and 2.
const wholeSteps = [];
for (let e = 1; e < 1e9; e *= 10) wholeSteps.push(e, 2 * e, 5 * e);

// hatch draws slanted lines into a rectangle, so that shading survives a
// printer without colour.
function hatch(ctx, x, y, w, h, step) {
	ctx.beginPath();
	for (let d = -h; d < w; d += step) { ctx.moveTo(x + d, y + h); ctx.lineTo(x + d + h, y); }
	ctx.stroke();
}

function shade(c) {
	return u => {
		const {ctx, bbox} = u, px = uPlot.pxRatio;
		ctx.save();
		ctx.beginPath(); ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height); ctx.clip();
		ctx.font = font.replace("12px", Math.round(11 * px) + "px"); ctx.textBaseline = "bottom"; ctx.textAlign = "left";
		let free = -Infinity;
		for (const s of c.spans || []) {
			const a = u.valToPos(s.from, "x", true), b = Math.max(u.valToPos(s.to, "x", true), a + px);
			if (!(b > bbox.left && a < bbox.left + bbox.width)) continue;
			const left = Math.max(a, bbox.left), right = Math.min(b, bbox.left + bbox.width);
			ctx.save();
			ctx.beginPath(); ctx.rect(left, bbox.top, right - left, bbox.height); ctx.clip();
			ctx.fillStyle = ctx.strokeStyle = ink[s.kind]; ctx.lineWidth = px;
			ctx.globalAlpha = s.kind == "note" ? 0.06 : 0.12;
			ctx.fillRect(left, bbox.top, right - left, bbox.height);
			if (s.kind != "note") { ctx.globalAlpha = 0.35; hatch(ctx, left, bbox.top, right - left, bbox.height, (s.kind == "bad" ? 6 : 10) * px); }
			ctx.restore();
			const w = ctx.measureText(s.label).width;
			if (s.label && left + 4 * px > free && (w < right - left - 8 * px || left + w < bbox.left + bbox.width)) {
				const at = left + 4 * px, base = bbox.top + bbox.height - 3 * px;
				ctx.fillStyle = ink.paper; ctx.globalAlpha = 0.8; ctx.fillRect(at - 2 * px, base - 13 * px, w + 4 * px, 14 * px);
				ctx.globalAlpha = 1; ctx.fillStyle = ink[s.kind]; ctx.fillText(s.label, at, base);
				free = at + w + 6 * px;
			}
		}
		ctx.restore();
	};
}

// mark draws lines through the plot and their names above it. Findings are
// named first; a quiet name that finds no room is left out.
function mark(c) {
	return u => {
		const {ctx, bbox} = u, px = uPlot.pxRatio, right = bbox.left + bbox.width, taken = [];
		ctx.save();
		ctx.font = font.replace("12px", Math.round(11 * px) + "px"); ctx.textBaseline = "bottom"; ctx.textAlign = "left";
		const marks = (c.marks || []).slice().sort((a, b) => (a.quiet ? 1 : 0) - (b.quiet ? 1 : 0));
		for (const m of marks) {
			const x = Math.round(u.valToPos(m.at, "x", true));
			if (!(x >= bbox.left - 1 && x <= right + 1)) continue;
			ctx.strokeStyle = ctx.fillStyle = m.quiet ? ink.dim : ink.mark;
			ctx.globalAlpha = m.quiet ? 0.5 : 1; ctx.lineWidth = (m.quiet ? 1 : 1.5) * px;
			ctx.setLineDash(m.quiet ? [2 * px, 3 * px] : [6 * px, 3 * px]);
			ctx.beginPath(); ctx.moveTo(x, bbox.top - 3 * px); ctx.lineTo(x, bbox.top + bbox.height); ctx.stroke();
			ctx.globalAlpha = 1;
			const w = ctx.measureText(m.label).width;
			const from = Math.min(x - 2 * px, right - w), to = from + w + 8 * px;
			if (taken.some(t => from < t[1] && to > t[0])) continue;
			taken.push([from, to]);
			ctx.fillText(m.label, from, bbox.top - 3 * px);
		}
		ctx.restore();
	};
}

// whiskers are the intervals of points that stand alone.
function whiskers(c) {
	return u => {
		const {ctx} = u, px = uPlot.pxRatio;
		ctx.save();
		ctx.lineWidth = 1.5 * px;
		for (const l of c.lines) {
			if (!l.dots || !l.lo) continue;
			ctx.strokeStyle = ink.series[l.colour % ink.series.length];
			l.x.forEach((at, i) => {
				if (l.lo[i] == null || l.hi[i] == null) return;
				const x = Math.round(u.valToPos(at, "x", true));
				ctx.beginPath(); ctx.moveTo(x, u.valToPos(l.lo[i], "y", true)); ctx.lineTo(x, u.valToPos(l.hi[i], "y", true)); ctx.stroke();
			});
		}
		ctx.restore();
	};
}

function build(c, el, width) {
	const tables = [], modes = [], series = [{label: c.x.label, value: (u, v) => v == null ? "" : " " + (c.time ? clock(v) : number(v) + c.x.tail)}];
	const bands = [];
	c.lines.forEach((l, i) => {
		const colour = ink.series[l.colour % ink.series.length];
		const s = {label: l.name, stroke: colour, width: 1.5, value: (u, v) => v == null ? "" : " " + number(v) + c.y.tail,
			dash: l.dashed ? [6, 4] : l.colour >= ink.series.length ? [2, 2] : undefined,
			points: {size: !l.dots ? 5 : l.x.length > 100 ? 4 : 8, fill: l.dots ? colour + "99" : colour, stroke: colour, width: 0}};
		if (l.dashed) s.points.show = false;
		if (l.dots) { s.paths = () => null; s.points.show = true; s.points.space = 0; }
		series.push(s);
		const table = [l.x, l.y], mode = [0, 2];
		if (l.lo) {
			const edge = () => ({label: "", class: "edge", stroke: "transparent", width: 0, points: {show: false}});
			series.push(edge(), edge());
			if (!l.dots) bands.push({series: [series.length - 1, series.length - 2], fill: colour + "2e"});
			table.push(l.lo, l.hi); mode.push(2, 2);
		}
		tables.push(table); modes.push(mode);
	});
	if (c.from != null) { tables.push([[c.from, c.to]]); modes.push([0]); }
	const data = uPlot.join(tables, modes);
	const pad = (u, a, b) => {
		if (a == null) return [0, 1];
		if (c.time) return a == b ? [a - 0.5, b + 0.5] : [a, b];
		if (c.x.log) return [a / 1.12, b * 1.12];
		const d = (b - a || Math.abs(a) || 1) * 0.04;
		return [a - d, b + d];
	};
	const y = {};
	if (c.y.log) { y.distr = 3; y.range = (u, a, b) => a == null ? [1, 10] : [a / 1.25, b * 1.25]; }
	else y.range = (u, a, b) => {
		if (a == null) return [0, 1];
		if (c.y.zero && a >= 0) return [0, b > 0 ? b * 1.08 : 1];
		const r = uPlot.rangeNum(a, b, 0.1, true);
		return a >= 0 && r[0] < 0 ? [0, r[1]] : r;
	};
	const line = {stroke: ink.grid, width: 1}, tick = {stroke: ink.rule, width: 1, size: 4};
	const xs = {stroke: ink.dim, font, labelFont: font, grid: line, ticks: tick, size: 28, space: 70,
		values: (u, v) => c.time ? v.map(t => t == null ? null : clock(t)) : labels(v)};
	if (c.time) xs.incrs = timeSteps;
	else if (!c.x.log && data[0].every(Number.isInteger)) xs.incrs = wholeSteps;
	if (!c.time) { xs.label = c.x.title; xs.labelSize = 18; xs.labelGap = 0; }
	if (c.x.log) { const at = data[0].filter((v, i, all) => all.length <= 16 || Math.log2(v) % 1 == 0); xs.splits = () => at; xs.filter = (u, v) => v; }
	const ys = {stroke: ink.dim, font, grid: line, ticks: tick, size: 58, gap: 4, values: (u, v) => labels(v)};
	if (c.y.log) {
		const round = (u, v) => v.map(t => /^[125]/.test(t.toExponential()) ? t : null);
		ys.filter = round; ys.grid = {...line, filter: round}; ys.ticks = {...tick, filter: round};
	}
	const cursor = {drag: {x: true, y: false}, points: {size: 6, width: 0}, y: false};
	if (c.group) cursor.sync = {key: c.group, setSeries: false, scales: ["x", null]};
	return new uPlot({width, height: c.small ? height.small : height.plain, series, bands, cursor,
		scales: {x: {time: false, distr: c.x.log ? 3 : 1, log: 2, range: pad}, y},
		axes: [xs, ys],
		padding: [c.marks ? 18 : 8, 14, 0, 0], legend: {markers: {width: 0, fill: (u, i) => u.series[i].stroke(u, i)}},
		hooks: {drawClear: [shade(c)], draw: [whiskers(c), mark(c)], setSeries: [(u, i, o) => {
			if (i == null || o.show == null) return;
			for (let k = i + 1; k < u.series.length && u.series[k].class == "edge"; k++) if (u.series[k].show != o.show) u.setSeries(k, {show: o.show}, false);
		}]}}, data, el);
}

function draw(width) {
	readInk();
	for (const p of plots) p.u.destroy();
	plots = [];
	document.querySelectorAll("[data-chart]").forEach(el => {
		const u = build(charts[+el.dataset.chart], el, width || Math.max(el.clientWidth, 200));
		plots.push({u, el});
	});
}

draw();
let printing = false;
new ResizeObserver(() => {
	if (printing) return;
	for (const {u, el} of plots) if (el.clientWidth > 0 && el.clientWidth != u.width) u.setSize({width: Math.max(el.clientWidth, 200), height: u.height});
}).observe(document.querySelector("main"));
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { if (!printing) draw(); });
// Paper is white and narrower than most screens.
addEventListener("beforeprint", () => { printing = true; root.classList.add("print"); draw(680); });
addEventListener("afterprint", () => { printing = false; root.classList.remove("print"); draw(); });
})();
