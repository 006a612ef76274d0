// Gives the verdict of npm's sns-validator on each body, as JSON. Nothing is fetched: https.get is
// replaced by a reader of the certificate that the test gives with it. Usage: node verdicts.js FOLDER < input
'use strict';

const https = require('https');
const { EventEmitter } = require('events');
const path = require('path');

const input = JSON.parse(require('fs').readFileSync(0, 'utf8'));

let certificate;
https.get = (address, answer) => {
  const response = new EventEmitter();
  response.statusCode = 200;
  answer(response);
  response.emit('data', Buffer.from(certificate));
  response.emit('end');
  return new EventEmitter();
};

// It keeps certificates for ever, by address: each body gets a validator that knows none.
const file = require.resolve(path.join(process.argv[2], 'node_modules', 'sns-validator'));
const fresh = () => {
  delete require.cache[file];
  return new (require(file))();
};

const verdicts = {};
for (const [name, [body, pem]] of Object.entries(input)) {
  verdicts[name] = 'no answer';
  certificate = Buffer.from(pem, 'base64');
  try {
    fresh().validate(Buffer.from(body, 'base64').toString('utf8'), (error) => {
      verdicts[name] = error ? 'refused' : 'accepted';
    });
  } catch (error) {
    verdicts[name] = 'crashed';
  }
}
process.stdout.write(JSON.stringify(verdicts));
