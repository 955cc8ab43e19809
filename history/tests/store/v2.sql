-- A store as version 1 left it. Never changed: a file like this may be on somebody's disk.
PRAGMA application_id = 1349676152;
PRAGMA auto_vacuum = INCREMENTAL;
CREATE TABLE incidents (
    id TEXT NOT NULL PRIMARY KEY,
    subject TEXT NOT NULL,
    region TEXT NOT NULL,
    sentence TEXT NOT NULL,
    probability REAL NOT NULL,
    since INTEGER NOT NULL,
    opened INTEGER NOT NULL,
    seen INTEGER NOT NULL,
    ended INTEGER,
    ending TEXT,
    continued_by TEXT,
    incident TEXT NOT NULL
) STRICT;
CREATE INDEX incidents_ended ON incidents (ended, id);
CREATE TABLE verdicts (
    incident TEXT NOT NULL,
    at INTEGER NOT NULL,
    verdict TEXT NOT NULL,
    PRIMARY KEY (incident, at)
) STRICT;
CREATE TABLE targets (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE
) STRICT;
CREATE TABLE rollups (
    target INTEGER NOT NULL,
    step INTEGER NOT NULL,
    start INTEGER NOT NULL,
    channel TEXT NOT NULL,
    placement TEXT NOT NULL,
    results TEXT NOT NULL,
    latency TEXT NOT NULL,
    PRIMARY KEY (target, step, start, channel, placement)
) STRICT, WITHOUT ROWID;
CREATE TABLE failures (
    number INTEGER PRIMARY KEY,
    target INTEGER NOT NULL,
    at INTEGER NOT NULL,
    recorded TEXT NOT NULL
) STRICT;
CREATE INDEX failures_of_target ON failures (target, at);
CREATE TABLE documents (
    sort TEXT NOT NULL,           -- handling, window, run
    id TEXT NOT NULL,
    at INTEGER NOT NULL,          -- when it was last changed, in microseconds of event time
    document TEXT NOT NULL,       -- JSON, as the API says it
    PRIMARY KEY (sort, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX documents_at ON documents (at);
INSERT INTO incidents VALUES ('i-1', '203.0.113.10:80', 'nolocal', 'pods on n2 are refused by their own node', 0.98,
    1795179000000000, 1795179010000000, 1795179100000000, 1795179100000000, 'judged', NULL,
    '{"id":"i-1","state":"closed","closed":1795179100000000,"since":1795179000000000,"opened":1795179010000000,"occurrences":2}');
INSERT INTO incidents VALUES ('i-2', '203.0.113.10:443', 'vip', 'nobody gets through', 0.91,
    1795179200000000, 1795179210000000, 1795179300000000, NULL, NULL, NULL, '{"id":"i-2","state":"open"}');
INSERT INTO verdicts VALUES ('i-1', 1795179010000000, '{"sentence":"pods on n2 are refused by their own node"}');
INSERT INTO targets VALUES (1, 'http://a.example.test/');
INSERT INTO rollups VALUES (1, 3600, 1795176000, 'vip', 'no-local', '{"ok":10,"refused":2}', '{"-79":10}');
INSERT INTO failures VALUES (1, 1, 1795179000000000,
    '{"vantage":"n2/pod","incarnation":"life-1","seq":1,"t_us":1795179000000000,"target":"http://a.example.test/","channel":"vip","result":"failed","phase":"connect","kind":"refused"}');
INSERT INTO documents VALUES ('handling', 'i-2', 1795179220000000, '{"incident":"i-2"}');
PRAGMA user_version = 2;
