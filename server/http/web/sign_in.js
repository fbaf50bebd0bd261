// Asks for the token by which the server knows this tab of the browser.

import {setToken, token} from './api.js';
import {el} from './dom.js';

// Shows the question in `main` in place of the page, unless it is there. The
// answer loads the page anew.
export function askForToken(main, reason) {
  if (document.getElementById('token') !== null) return;
  const field = el('input', {
    id: 'token', type: 'password', autocomplete: 'off', size: 50,
    required: true, 'aria-describedby': 'token-reason',
  });
  const answer = event => {
    event.preventDefault();
    setToken(field.value);
    location.reload();
  };
  main.replaceChildren(
      el('h1', {}, 'Sign in'),
      token() === '' ?
          el('p', {}, 'The server wants a token. An admin makes one with ' +
              '`gpupool tokens create`.') : '',
      el('p', {id: 'token-reason'}, reason),
      el('form', {onsubmit: answer},
         el('label', {for: 'token'}, 'Token '), field, ' ',
         el('button', {type: 'submit'}, 'Sign in')),
      el('p', {class: 'quiet'},
         'The token is kept until this tab is closed, and sent to this ' +
         'server only.'));
  field.focus();
}

// Shows a button that forgets the token, if there is one.
export function offerSignOut(header) {
  if (token() === '') return;
  const leave = () => {
    setToken('');
    location.reload();
  };
  header.append(el('button', {type: 'button', onclick: leave}, 'Sign out'));
}
