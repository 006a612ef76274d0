// Gives the verdict of npm's sns-validator on each message, as JSON. Nothing is fetched: https.get is
// replaced by a reader of the certificate that the test names. Usage: node verdicts.js FOLDER < input
'use strict';

const https = require('https');
const { EventEmitter } = require('events');
const path = require('path');

const input = JSON.parse(require('fs').readFileSync(0, 'utf8'));

https.get = (address, answer) => {
  const response = new EventEmitter();
  response.statusCode = 200;
  answer(response);
  response.emit('data', Buffer.from(input.certificate));
  response.emit('end');
  return new EventEmitter();
};

const Validator = require(path.join(process.argv[2], 'node_modules', 'sns-validator'));

const verdicts = {};
for (const [name, body] of Object.entries(input.bodies)) {
  verdicts[name] = 'no answer';
  try {
    new Validator().validate(body, (error) => {
      verdicts[name] = error ? 'refused' : 'accepted';
    });
  } catch (error) {
    verdicts[name] = 'crashed';
  }
}
process.stdout.write(JSON.stringify(verdicts));
