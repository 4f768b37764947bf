// The page's controls: read the settings, choose again, and show what changed.

/** Without what this needs, the page stays as it is without a script. */
async function start() {
  if (typeof DecompressionStream === 'undefined') return;
  const data = JSON.parse(byId('data').textContent);
  const page = {
    data,
    runs: await unpack(data),
    rules: Object.fromEntries(data.rules.map((rule) => [rule.name, rule])),
    metrics: Object.fromEntries(data.metrics.map((metric) => [metric.name, metric])),
    form: byId('controls'),
    held: byId('heldout'),
    work: 0,
  };
  document.documentElement.classList.add('js');
  page.form.hidden = false;
  reset(page);
  page.form.addEventListener('submit', (event) => event.preventDefault());
  page.form.addEventListener('input', (event) => {
    follow(page, event.target);
    render(page);
  });
  byId('reset').addEventListener('click', () => {
    reset(page);
    render(page);
  });
  for (const part of document.querySelectorAll('details[data-live]')) {
    part.addEventListener('toggle', () => part.open && render(page));
  }
  byId('split')?.addEventListener('input', () => render(page));
  matchMedia('(max-width: 40rem)').addEventListener('change', () => render(page));
  render(page);
}

/** Put the settings that the report was written with into the controls. */
function reset(page) {
  const { form, data } = page;
  const first = data.start;
  const field = (name) => form.elements.namedItem(name);
  if (field('run')) field('run').value = String(first.run);
  field('rule').value = first.rule;
  field('delta').value = first.delta;
  field('slider').value = first.delta;
  field('threshold').value = first.threshold;
  field('q').value = first.q;
  field('weights').value = first.weights;
  field('worst').checked = first.worst;
  tick(page, first.objectives);
}

/** Controls that belong together: slider and box, rule and objectives. */
function follow(page, changed) {
  const { form, rules } = page;
  const field = (name) => form.elements.namedItem(name);
  if (changed.name === 'slider') field('delta').value = changed.value;
  if (changed.name === 'delta' && decimal(changed.value)) field('slider').value = changed.value;
  if (changed.name === 'rule') {
    const { objectives } = rules[changed.value];
    if (objectives.length) tick(page, objectives);
  }
  if (changed.name === 'objective') {
    const ticked = tickedIn(form);
    const same = (rule) => rule.kind === 'constrained' && rule.objectives.length === ticked.length &&
      rule.objectives.every((name) => ticked.includes(name));
    const named = Object.values(rules).find(same);
    field('rule').value = (named ?? rules.ac).name;
  }
}

const boxes = (form) => [...form.querySelectorAll('input[name="objective"]')];
const tickedIn = (form) => boxes(form).filter((box) => box.checked).map((box) => box.value);

function tick(page, names) {
  for (const box of boxes(page.form)) box.checked = names.includes(box.value);
}

/** What the controls say, as rules.js takes it, with `problem` where it cannot be computed. */
function readSetting(page) {
  const value = (name) => page.form.elements.namedItem(name)?.value;
  const setting = {
    rule: page.rules[value('rule')],
    delta: decimal(value('delta')),
    threshold: decimal(value('threshold')),
    q: Number(value('q').replace('inf', 'Infinity')),
    objectives: tickedIn(page.form),
    weights: value('weights'),
    worst: page.form.elements.namedItem('worst').checked,
  };
  return { ...setting, problem: problemWith(page, setting) };
}

function problemWith(page, { rule, delta, threshold, objectives, weights, worst }) {
  if (!delta) return 'The tolerance has to be a number of points, such as 0.5.';
  if (rule.takes.includes('threshold_pp') && !threshold) {
    return 'The least accuracy has to be a number of points, such as 80.';
  }
  if (rule.takes.includes('objectives') && !objectives.length) return 'Choose an objective.';
  if (worst && weights !== 'equal') {
    return 'The worst domain has no weights: choose equal weights, or not the worst domain.';
  }
  const { start: first } = page.data;
  if (rule.kind === 'reported' && (weights !== first.weights || worst !== first.worst)) {
    return `${rule.name} is not recomputed here: count domains as the report did, or choose ` +
      'another rule.';
  }
  const needs = rule.kind === 'wald' ? ['ece'] : objectivesOf({ rule, objectives });
  const lacking = needs.find((name) =>
    page.runs.some((run) => !carries(run, name, weights, worst)));
  if (lacking) {
    return `${page.metrics[lacking].title} is here only as an equal mean over domains: choose ` +
      'equal weights without the worst domain, or another rule.';
  }
  return '';
}

function usable(page, rule, setting) {
  const trial = { ...setting, rule };
  return !problemWith(page, trial) && !(rule.kind === 'wald' && setting.rule.kind !== 'wald');
}

function render(page) {
  const began = performance.now();
  page.work += 1; // what was under way for older settings stops
  const setting = readSetting(page);
  adapt(page, setting);
  const number = Number(page.form.elements.namedItem('run')?.value ?? 0);
  const selection = setting.problem ? null : select(page.runs[number], setting);
  const none = selection && selection.index < 0
    ? `No checkpoint reaches ${setting.threshold.text} points: the best ` +
      `${setting.worst ? 'worst-domain' : 'mean'} source accuracy is ` +
      `${shown(100 * Math.max(...selection.view.accuracy.filter(Number.isFinite)), POINTS)} points.`
    : '';
  byId('problem').textContent = setting.problem || none;
  byId('problem').hidden = !(setting.problem || none);
  for (const part of document.querySelectorAll('[data-result]')) {
    part.classList.toggle('stale', Boolean(setting.problem || none));
  }
  if (selection && !none) {
    renderRun(page, selection);
    if (page.runs.length > 1) renderCohort(page, setting);
  }
  page.form.dataset.ms = (performance.now() - began).toFixed(1);
}

/** Show the controls that the rule uses. */
function adapt(page, { rule, delta }) {
  const takes = (name) => rule.takes.includes(name);
  byId('tolerance').hidden = !takes('delta_pp');
  byId('least').hidden = !takes('threshold_pp');
  byId('distance').hidden = !takes('q');
  byId('objectives').hidden = rule.kind !== 'constrained';
  byId('summary').textContent = rule.summary.replace('delta_pp', 'δ');
  byId('not-recomputed').hidden = rule.kind !== 'reported';
  byId('not-recomputed').textContent = `${rule.name} is not recomputed on this page. You see the ` +
    'choices that checkwise made when it wrote the report.' +
    (rule.ownWeights ? ' Means over domains are drawn with equal weights.' : '');
  const box = page.form.elements.namedItem('delta');
  if (delta) box.removeAttribute('aria-invalid');
  else box.setAttribute('aria-invalid', 'true');
}

const usualSetting = (page, setting) => ({ ...setting, rule: page.rules[page.data.start.reference] });

function isStart(page, s) {
  const first = page.data.start;
  const relevant = (name, same) => !s.rule.takes.includes(name) || same;
  return s.rule.name === first.rule && s.weights === first.weights && s.worst === first.worst &&
    relevant('delta_pp', s.delta.value === decimal(first.delta).value) &&
    relevant('q', String(s.q).replace('Infinity', 'inf') === first.q) &&
    relevant('threshold_pp', s.threshold?.value === decimal(first.threshold)?.value) &&
    relevant('objectives', s.objectives.join() === first.objectives.join());
}

/** The rule with the settings that matter to it: ac-nc (δ 0.5, L∞). */
function settingText({ rule, delta, threshold, q, objectives, weights, worst }) {
  const parts = [
    rule.takes.includes('delta_pp') ? `δ ${delta.text}` : '',
    rule.takes.includes('threshold_pp') ? `at least ${threshold.text}` : '',
    rule.takes.includes('q') ? `L${q === Infinity ? '∞' : q}` : '',
    rule.takes.includes('objectives') ? objectives.join(' + ') : '',
    weights === 'sample' ? 'weights by sample' : '',
    worst ? 'worst domain' : '',
    rule.kind === 'reported' ? 'as reported' : '',
  ].filter(Boolean);
  return rule.name + (parts.length ? ` (${parts.join(', ')})` : '');
}

/** Do the slower part when the browser is free, unless the settings have changed by then. */
function later(page, work) {
  const mine = page.work;
  setTimeout(() => mine === page.work && work(), 30);
}

start();
