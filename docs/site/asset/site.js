(function () {
"use strict";
const root = document.currentScript.dataset.root;
const query = document.getElementById("query"), found = document.getElementById("found");
const most = 20, around = 60;
let loading = false;

// The index is a script, since a page that lies on a disk may load nothing else.
function load() {
	if (loading) return;
	loading = true;
	const s = document.createElement("script");
	s.src = root + "search-index.js";
	s.onload = search;
	document.head.append(s);
}

// score says how well a section answers the words; 0: one of them is not in it.
function score(section, words) {
	const title = section.title.toLowerCase(), heading = (section.heading || "").toLowerCase(), text = section.text.toLowerCase();
	let sum = 0;
	for (const w of words) {
		const here = (title.includes(w) ? (section.heading ? 2 : 8) : 0) + (heading.includes(w) ? 6 : 0) + (text.includes(w) ? 1 : 0);
		if (here === 0) return 0;
		sum += here;
	}
	return sum;
}

function excerpt(text, word) {
	const at = Math.max(0, text.toLowerCase().indexOf(word) - around);
	return (at > 0 ? "… " : "") + text.slice(at, at + 3 * around) + (at + 3 * around < text.length ? " …" : "");
}

function search() {
	if (typeof assayPages === "undefined") return load();
	const words = query.value.toLowerCase().split(/\s+/).filter(Boolean);
	found.replaceChildren();
	found.hidden = words.length === 0;
	if (found.hidden) return;
	const hits = assayPages.map(s => ({s, n: score(s, words)})).filter(h => h.n > 0).sort((a, b) => b.n - a.n).slice(0, most);
	for (const {s} of hits) {
		const li = document.createElement("li"), a = document.createElement("a"), small = document.createElement("small");
		a.href = root + s.href;
		a.textContent = s.heading ? s.title + " › " + s.heading : s.title;
		small.textContent = excerpt(s.text, words[0]);
		li.append(a, small);
		found.append(li);
	}
	if (hits.length === 0) {
		const li = document.createElement("li");
		li.textContent = "Nothing has all of these words.";
		found.append(li);
	}
}

query.addEventListener("focus", load);
query.addEventListener("input", search);
query.addEventListener("keydown", e => {
	const first = found.querySelector("a");
	if (e.key === "Enter" && first) first.click();
	if (e.key === "ArrowDown" && first) { first.focus(); e.preventDefault(); }
	if (e.key === "Escape") { query.value = ""; search(); }
});
found.addEventListener("click", e => { if (e.target.closest("a")) found.hidden = true; });
document.addEventListener("keydown", e => {
	if (e.key === "/" && document.activeElement !== query) { query.focus(); e.preventDefault(); }
});
// A search can be linked to.
const asked = new URLSearchParams(location.search).get("q");
if (asked) {
	query.value = asked;
	search();
}
const pages = document.querySelector("nav details");
if (matchMedia("(max-width:800px)").matches) pages.open = false;
// What is wider than the page is scrolled by keys too.
function reachable() {
	for (const block of document.querySelectorAll("main pre, main table")) {
		if (block.scrollWidth > block.clientWidth) block.tabIndex = 0;
		else block.removeAttribute("tabindex");
	}
}
addEventListener("load", reachable);
addEventListener("resize", reachable);
})();
