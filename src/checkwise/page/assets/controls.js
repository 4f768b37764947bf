// The page's controls: read the settings, look up what Python chose, and show what changed.

function start() {
  const data = JSON.parse(byId('data').textContent);
  const byName = (list) => Object.fromEntries(list.map((one) => [one.name, one]));
  const page = {
    data, rules: byName(data.rules), metrics: byName(data.metrics),
    form: byId('controls'), held: byId('heldout'),
  };
  page.form.hidden = false;
  reset(page);
  page.form.addEventListener('submit', (event) => event.preventDefault());
  page.form.addEventListener('input', () => render(page));
  byId('reset').addEventListener('click', () => {
    reset(page);
    render(page);
  });
  for (const part of document.querySelectorAll('details[data-live]')) {
    part.addEventListener('toggle', () => part.open && render(page));
  }
  matchMedia('(max-width: 40rem)').addEventListener('change', () => render(page));
  render(page);
}

/** Put the settings that the page was written with into the controls. */
function reset({ form, data: { start: first } }) {
  const values = { run: first.run, rule: first.rule, slider: first.stop, q: first.q || 'inf',
    weighting: first.weighting };
  for (const [name, value] of Object.entries(values)) {
    const field = form.elements.namedItem(name);
    if (field) field.value = String(value);
  }
}

function render(page) {
  const setting = settingOf(page);
  const { rule, run, weighting, stop } = setting;
  const delta = page.data.stops[stop];
  byId('tolerance').hidden = !rule.tolerance;
  byId('delta').textContent = inPoints(delta);
  page.form.elements.namedItem('slider').setAttribute('aria-valuetext', inPoints(delta));
  byId('distance').hidden = !(keyOf(rule, '2', weighting) in run.choices);
  byId('summary').textContent = rule.summary;
  const first = page.data.start;
  byId('chosen-now').hidden = page.data.runs.length === 1 && rule.name === first.rule &&
    weighting === first.weighting && (setting.q || '') === first.q &&
    (!rule.tolerance || stop === first.stop);
  renderRun(page, setting);
  if (page.data.study) renderStudy(page, setting);
}

/** Buttons that copy what stands beside them. */
for (const button of document.querySelectorAll('button[data-copy]')) {
  button.addEventListener('click', async () => {
    const text = button.previousElementSibling;
    try {
      await navigator.clipboard.writeText(text.textContent);
      button.textContent = 'Copied';
      setTimeout(() => { button.textContent = 'Copy'; }, 1500);
    } catch {
      getSelection().selectAllChildren(text); // then the keyboard copies it
    }
  });
}

document.documentElement.classList.add('js');
if (byId('data')) start();
