// Looks at pages as people do: node pages.cjs MODULES PICTURES FILE.html...
//
// MODULES is the directory that .ci/parts/playwright prints, PICTURES where pictures
// go (empty: nowhere). Each page is opened in Debian's Chromium in light and dark, on
// a desktop and on a phone of 390 pixels. For each look it prints a line of JSON: what
// the page asked for, what the browser complained of, whether it scrolls sideways,
// which regions have columns out of sight, and what axe finds serious.
"use strict";
const {createRequire} = require("node:module");
const path = require("node:path");
const {pathToFileURL} = require("node:url");
const fs = require("node:fs");

const [modules, pictures, ...files] = process.argv.slice(2);
const from = createRequire(path.join(modules, "here.js"));
const {chromium} = from("playwright-core");
const axe = fs.readFileSync(from.resolve("axe-core/axe.min.js"), "utf8");

const screens = {desktop: {width: 1280, height: 900}, phone: {width: 390, height: 844}};

const narrower = {desktop: [1000], phone: []}; // a window that does not fill the screen

// hidden are the tables with columns out of sight.
const hidden = `[...document.querySelectorAll(".scroll")].filter(e => e.scrollWidth > e.clientWidth + 1)
	.map(e => e.getAttribute("aria-label") + ": " + e.clientWidth + " of " + e.scrollWidth + " pixels")`;

async function look(browser, file, scheme, screen) {
	const context = await browser.newContext({colorScheme: scheme, viewport: screens[screen], reducedMotion: "reduce"});
	const page = await context.newPage();
	const requests = [], complaints = [];
	page.on("request", r => requests.push(r.url()));
	page.on("console", m => complaints.push(m.type() + ": " + m.text()));
	page.on("pageerror", e => complaints.push("error: " + e.message));
	const url = pathToFileURL(file).href;
	await page.goto(url);
	await page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))");
	const seen = await page.evaluate(`({
		width: document.documentElement.scrollWidth,
		charts: document.querySelectorAll("[data-chart]").length,
		drawn: document.querySelectorAll("[data-chart] canvas").length,
	})`);
	seen.hidden = await page.evaluate(hidden);
	if (pictures) await page.screenshot({path: path.join(pictures, [path.basename(file, ".html"), screen, scheme].join("-") + ".png"), fullPage: true});
	for (const width of narrower[screen]) {
		await page.setViewportSize({width, height: screens[screen].height});
		seen.hidden.push(...(await page.evaluate(hidden)).map(t => "at " + width + ": " + t));
	}
	await page.setViewportSize(screens[screen]);
	await page.evaluate(axe);
	const found = await page.evaluate(`axe.run(document, {resultTypes: ["violations"]})`);
	const violations = found.violations.filter(v => v.impact == "serious" || v.impact == "critical")
		.map(v => v.id + ": " + v.help + ": " + v.nodes.slice(0, 3).map(n => n.html.slice(0, 200)).join(" "));
	const print = {page: path.basename(file), scheme, screen, ...seen, requests: requests.filter(r => r != url && !r.startsWith("data:")), complaints, violations, rules: found.passes.length};
	console.log(JSON.stringify(print));
	await context.close();
}

(async () => {
	const browser = await chromium.launch({executablePath: "/usr/bin/chromium", args: ["--no-sandbox", "--disable-gpu", "--hide-scrollbars"]});
	try {
		for (const file of files)
			for (const scheme of ["light", "dark"])
				for (const screen of Object.keys(screens)) await look(browser, file, scheme, screen);
	} finally {
		await browser.close();
	}
})().catch(e => { console.error(e); process.exit(1); });
