// Looks at a report page in a frame as a reader would, at several widths, and writes down what is wrong with it.
const WIDTHS = [360, 400, 768, 1280];
const problems = new Set();
const frame = document.getElementById('page');

const luminance = ([r, g, b]) => {
  const part = (c) => ((c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
  return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
};
const numbers = (color) => (color.match(/[\d.]+/g) || []).map(Number);
const contrast = (a, b) => {
  const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (high + 0.05) / (low + 0.05);
};
const name = (element) => `<${element.tagName.toLowerCase()} class="${element.getAttribute('class') || ''}"> ` +
  `"${(element.textContent || '').trim().slice(0, 40)}"`;

function once(page) {
  for (const svg of page.querySelectorAll('svg')) {
    if (!svg.querySelector(':scope > title')?.textContent.trim()) problems.add(`a picture without a title: ${svg.outerHTML.slice(0, 80)}`);
  }
  for (const svg of page.querySelectorAll('figure svg')) {
    if (!svg.querySelector('path, circle')) problems.add(`a chart without data: "${svg.querySelector('title').textContent}"`);
  }
  let level = 0;
  for (const heading of page.querySelectorAll('h1,h2,h3,h4,h5,h6')) {
    const own = Number(heading.tagName[1]);
    if (own > level + 1) problems.add(`${name(heading)} skips a level`);
    level = own;
  }
  if (!page.documentElement.lang) problems.add('the page has no language');
  for (const table of page.querySelectorAll('table')) {
    if (!table.caption) problems.add('a table without a caption');
    if (table.querySelector('th:not([scope])')) problems.add('a table header without a scope');
  }
  for (const skip of page.querySelectorAll('a[href^="#"]')) {
    if (!page.querySelector(skip.getAttribute('href'))) problems.add(`${name(skip)} leads nowhere`);
  }
  const loaded = frame.contentWindow.performance.getEntriesByType('resource').map((entry) => entry.name);
  if (loaded.length) problems.add(`the page loads ${loaded}`);
}

function colours(page) {
  const text = page.createTreeWalker(page.body, NodeFilter.SHOW_TEXT);
  const seen = new Map();
  while (text.nextNode()) {
    const element = text.currentNode.parentElement;
    if (!text.currentNode.data.trim() || ['TITLE', 'DESC', 'STYLE'].includes(element.tagName.toUpperCase())) continue;
    const style = frame.contentWindow.getComputedStyle(element);
    if (style.opacity === '0') continue;
    const ink = numbers(element.namespaceURI.endsWith('svg') ? style.fill : style.color);
    let behind = element;
    let paper = [0, 0, 0, 0];
    while (behind && paper[3] === 0) {
      paper = numbers(frame.contentWindow.getComputedStyle(behind).backgroundColor);
      behind = behind.parentElement;
    }
    const key = `${ink} on ${paper}`;
    if (seen.has(key)) continue;
    const ratio = contrast(ink, paper);
    seen.set(key, ratio);
    if (!(ratio >= 4.5)) problems.add(`contrast of ${name(element)} is ${ratio.toFixed(2)} (${key})`);
  }
  return Math.min(...seen.values());
}

// The right edge of what can be seen in an element.
function edge(page, section) {
  let right = 0;
  const see = (rect) => { if (rect.width > 0) right = Math.max(right, rect.right); };
  section.querySelectorAll('table, svg').forEach((element) => see(element.getBoundingClientRect()));
  const text = page.createTreeWalker(section, NodeFilter.SHOW_TEXT);
  const range = page.createRange();
  while (text.nextNode()) {
    if (!text.currentNode.data.trim()) continue;
    range.selectNodeContents(text.currentNode);
    [...range.getClientRects()].forEach(see);
  }
  return right;
}

function layout(page, width) {
  for (const element of page.body.querySelectorAll('*')) {
    const style = frame.contentWindow.getComputedStyle(element);
    if (element.closest('svg') || style.overflowX === 'visible' || element.scrollWidth <= element.clientWidth + 1) continue;
    const hint = style.backgroundImage.includes('gradient') && element.tabIndex === 0;
    if (!hint) problems.add(`at ${width} px ${name(element)} is cut without a hint`);
  }
  for (const section of page.querySelectorAll('section')) {
    const frameOf = section.getBoundingClientRect();
    const used = (edge(page, section) - frameOf.left) / frameOf.width;
    if (width >= 1280 && used < 2 / 3) {
      problems.add(`at ${width} px "${section.querySelector('h2').textContent}" fills ${(100 * used).toFixed(0)} % of its width`);
    }
  }

  const root = page.documentElement;
  if (root.scrollWidth > width) {
    const wide = [...page.body.querySelectorAll('*')].find((element) =>
      element.getBoundingClientRect().right > width + 0.5 && !element.closest('.scroll'));
    problems.add(`at ${width} px the page is ${root.scrollWidth} px wide: ${wide ? name(wide) : 'unknown'}`);
  }
  for (const svg of page.querySelectorAll('svg')) {
    const frameOf = svg.getBoundingClientRect();
    if (frameOf.width === 0) continue;
    const texts = [...svg.querySelectorAll('text')].filter((text) => text.textContent);
    const rects = texts.map((text) => text.getBoundingClientRect());
    rects.forEach((a, i) => {
      if (a.left < frameOf.left - 1 || a.right > frameOf.right + 1 || a.top < frameOf.top - 1 || a.bottom > frameOf.bottom + 2) {
        problems.add(`at ${width} px "${texts[i].textContent}" leaves its picture "${svg.querySelector('title').textContent}"`);
      }
      const small = parseFloat(frame.contentWindow.getComputedStyle(texts[i]).fontSize) * (svg.getScreenCTM()?.a ?? 1);
      if (small < 8.5) problems.add(`at ${width} px "${texts[i].textContent}" is only ${small.toFixed(1)} px high`);
      for (const b of rects.slice(i + 1)) {
        const apart = a.right <= b.left + 0.5 || b.right <= a.left + 0.5 || a.bottom <= b.top + 2 || b.bottom <= a.top + 2;
        if (!apart) problems.add(`at ${width} px "${texts[i].textContent}" overlaps in "${svg.querySelector('title').textContent}"`);
      }
    });
  }
}

frame.addEventListener('load', () => {
  const page = frame.contentDocument;
  once(page);
  let lowest = 0;
  for (const open of [false, true]) {
    if (open) page.querySelectorAll('details').forEach((details) => { details.open = true; });
    for (const width of WIDTHS) {
      frame.style.width = `${width}px`;
      layout(page, width);
      lowest = colours(page);
    }
  }
  const scheme = frame.contentWindow.matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light';
  const pictures = page.querySelectorAll('svg').length;
  const lines = [...problems].slice(0, 20).map((problem) => `PROBLEM ${problem}`);
  lines.push(`MEASURED ${scheme}, ${pictures} pictures, lowest contrast ${lowest.toFixed(2)}, ${problems.size} problems`);
  document.getElementById('result').textContent = lines.join('\n');
  frame.remove();
});
