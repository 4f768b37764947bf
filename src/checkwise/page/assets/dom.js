// Elements, tables and downloads. Text only ever enters the page as text.

/** An HTML element; attributes that are null are left out, on… are listeners. */
function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** An SVG element. The parser knows the namespace, so the page holds no address. */
function s(tag, attributes = {}, ...children) {
  const parsed = document.createElement('template');
  parsed.innerHTML = '<svg></svg>';
  const space = parsed.content.firstChild.namespaceURI;
  return fill(document.createElementNS(space, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== ''));
  return element;
}

const byId = (id) => document.getElementById(id);

/** A number with a real minus sign, never a negative zero; a dash where there is none. */
function shown(value, decimals) {
  if (value === null || value === undefined || Number.isNaN(value)) return '–';
  const text = Math.abs(value).toFixed(decimals);
  return (value < 0 && Number(text) !== 0 ? '−' : '') + text;
}

const inPoints = (text) => `${text} ${text === '1' ? 'point' : 'points'}`;
const counted = (things, name) => `${things} ${name}${things === 1 ? '' : 's'}`;
const capital = (text) => text[0].toUpperCase() + text.slice(1);

/**
 * A table whose columns sort on a click and that downloads as CSV.
 * columns: {label, small, value(row), cell(row), csv: [[name, value(row)], …]}; the first is text.
 * The order that was asked for outlives a new rendering in the same place.
 */
function sortableTable(place, { caption, name, columns, rows, kind, open }) {
  const state = (place.sorting ??= { by: null, down: false });
  const ordered = [...rows];
  if (state.by !== null && columns[state.by]) {
    const key = columns[state.by].value;
    const sign = state.down ? -1 : 1;
    const size = (v) => (typeof v === 'number' && Number.isNaN(v) ? Infinity : v);
    ordered.sort((a, b) => {
      const [x, y] = [size(key(a)), size(key(b))];
      return sign * (x < y ? -1 : x > y ? 1 : 0);
    });
  }
  const again = () => sortableTable(place, { caption, name, columns, rows, kind, open });
  const head = columns.map((column, i) => {
    const sorted = state.by === i ? (state.down ? 'descending' : 'ascending') : null;
    const sort = () => {
      state.down = state.by === i && !state.down;
      state.by = i;
      again();
      place.querySelectorAll('th button')[i].focus();
    };
    return h('th', { scope: 'col', class: i ? 'num' : null, 'aria-sort': sorted },
      h('button', { type: 'button', class: 'sort', onclick: sort }, column.label),
      column.small ? h('small', {}, column.small) : null);
  });
  const body = ordered.map((row) => h('tr', { class: kind ? kind(row) : null },
    columns.map((column, i) => (i
      ? h('td', { class: 'num' }, column.cell(row))
      : h('th', { scope: 'row' },
        open ? h('button', { type: 'button', class: 'link', onclick: () => open(row) },
          column.cell(row)) : column.cell(row))))));
  const save = () => download(`${name}.csv`, csvOf(columns, ordered));
  place.replaceChildren(
    h('p', { class: 'caption' }, caption, ' ',
      h('button', { type: 'button', class: 'save', onclick: save }, 'Download CSV')),
    h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': caption },
      h('table', {}, h('thead', {}, h('tr', {}, head)), h('tbody', {}, body))));
}

function csvOf(columns, rows) {
  const parts = columns.flatMap((column) => column.csv ?? [[column.label, column.value]]);
  const lines = [parts.map(([name]) => name), ...rows.map((row) => parts.map(([, of]) => of(row)))];
  return lines.map((line) => line.map(csvCell).join(',')).join('\n') + '\n';
}

/** Spreadsheets run cells that begin like a formula; names are data there too. */
function csvCell(value) {
  if (typeof value === 'number') return Number.isNaN(value) ? '' : String(value);
  const text = /^[=+\-@\t]/.test(value) ? `'${value}` : String(value);
  return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

function download(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: 'text/csv' }));
  h('a', { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
