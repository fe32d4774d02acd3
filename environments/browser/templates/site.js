// Menus, date pickers, suggestions, questions before deeds that cannot be undone.
for (const button of document.querySelectorAll('button[data-menu]')) {
  const menu = document.getElementById(button.dataset.menu);
  button.addEventListener('click', () => {
    menu.hidden = !menu.hidden;
    button.setAttribute('aria-expanded', String(!menu.hidden));
  });
}
for (const form of document.querySelectorAll('form[data-ask]'))
  form.addEventListener('submit', event => { if (!confirm(form.dataset.ask)) event.preventDefault(); });
for (const dialog of document.querySelectorAll('dialog[data-open]')) dialog.showModal();
for (const button of document.querySelectorAll('button.pick')) {
  button.addEventListener('click', () => {
    const input = document.getElementById(button.dataset.for);
    const shown = new Date((input.value || button.dataset.today) + 'T12:00:00Z');
    const box = document.createElement('dialog');
    box.className = 'picker';
    box.setAttribute('aria-label', 'Calendar');
    const draw = () => {
      const year = shown.getUTCFullYear(), month = shown.getUTCMonth();
      box.replaceChildren();
      const head = document.createElement('p');
      for (const [label, step] of [['Previous month', -1], ['Next month', 1]]) {
        const move = document.createElement('button');
        move.type = 'button'; move.textContent = label;
        move.addEventListener('click', () => { shown.setUTCMonth(month + step, 1); draw(); });
        head.append(move);
      }
      const title = document.createElement('h3');
      title.textContent = shown.toLocaleDateString('en-GB', {month: 'long', year: 'numeric', timeZone: 'UTC'});
      const grid = document.createElement('p');
      for (let day = 1; day <= new Date(Date.UTC(year, month + 1, 0)).getUTCDate(); day++) {
        const pick = document.createElement('button');
        pick.type = 'button'; pick.textContent = String(day);
        pick.addEventListener('click', () => {
          input.value = `${year}-${String(month + 1).padStart(2, '0')}-${String(day).padStart(2, '0')}`;
          box.remove();
        });
        grid.append(pick);
      }
      box.append(head, title, grid);
    };
    draw();
    button.after(box);
    box.show();
  });
}
for (const input of document.querySelectorAll('input[data-suggest]')) {
  const list = document.createElement('ul');
  list.className = 'suggest'; list.hidden = true; list.setAttribute('aria-label', 'Suggestions');
  input.after(list);
  input.addEventListener('input', async () => {
    const found = await (await fetch(input.dataset.suggest + '?q=' + encodeURIComponent(input.value))).json();
    list.replaceChildren(...found.map(text => {
      const item = document.createElement('li'), pick = document.createElement('button');
      pick.type = 'button'; pick.textContent = text;
      pick.addEventListener('click', () => { input.value = text; list.hidden = true; });
      item.append(pick);
      return item;
    }));
    list.hidden = found.length === 0;
  });
}
