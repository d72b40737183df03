"""What is private in texts is replaced, and figures, versions and plain words stay."""

import json
import os
import pwd
import socket

import pytest

from ann_benchmarks.common.layout import PROJECT
from ann_benchmarks.submission.facts import (
    ADDRESS,
    HOST,
    PATH,
    SECRET,
    USER,
    OwnFact,
    facts_here,
)
from ann_benchmarks.submission.private import Private

FACTS = [
    OwnFact(HOST, "quokka7"),
    OwnFact(HOST, "quokka7.zoo.example"),
    OwnFact(USER, "xenia"),
    OwnFact(USER, "Xenia Müller"),
    OwnFact(ADDRESS, "203.0.113.9"),
    OwnFact(ADDRESS, "fe80::aa:1"),
    OwnFact(PATH, "/data/xenia/work"),
    OwnFact(SECRET, "hunter22hunter"),
    OwnFact(SECRET, "s3cr7!"),
    OwnFact(SECRET, "it's my s3cret"),
]


@pytest.fixture(scope="module")
def private():
    return Private(FACTS, [{"vector_version": "0.8.6.1", "postgres_version": "18.6", "algo": "vchord"}])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("on quokka7", "on [host]"),
        ("at QUOKKA7.zoo.example:5432", "at [host]:5432"),
        ("role xenia_app, Xenia Müller", "role [user]_app, [user]"),
        ("/data/xenia/work/bench/run.py and /data/xenia/work/x/y.", "[path] and [path]."),
        ("from 203.0.113.9, port 5432", "from [address], port 5432"),
        ("fe80::aa:1%eth0", "[address]%eth0"),
        ("key=hunter22hunter;", "key=[secret];"),
        ("host=10.1.2.3 dbname=a", "host=[address] dbname=a"),
        ("postgresql://me:pw12@10.1.2.3:5432/a", "postgresql://[secret]@[address]:5432/a"),
        ("user=a password=s3cret host=db", "user=a password=[secret] host=db"),
        ("with s3cr7! and xs3cr7!x", "with [secret] and xs3cr7!x"),
        ("'it''s my s3cret', it%27s%20my%20s3cret", "'[secret]', [secret]"),
        ("password='hunter 5 x' now", "password='[secret]' now"),
        ('{"password": "a b", "x": "c"}', '{"password": "[secret]", "x": "c"}'),
        ('{\\"pass\\": 1, \\"password\\": \\"a b\\"}', '{\\"pass\\": 1, \\"password\\": \\"[secret]\\"}'),
        ("CREATE ROLE a PASSWORD 'b c'", "CREATE ROLE a PASSWORD '[secret]'"),
        (
            'IDENTIFIED BY "x1" --password=x2 --password x3',
            'IDENTIFIED BY "[secret]" --password=[secret] --password [secret]',
        ),
        ("SCRAM-SHA-256$4096:ab=$cd=:ef= or md5" + "0a" * 16, "[secret] or [secret]"),
        ("host=db1.shop.example, postgres://db2.shop.example/x", "host=[host], postgres://[host]/x"),
        ("in /export/home/jane/x, /srv/a/home/bob", "in [path], [path]"),
        ("API_KEY = 0123456789, token: short", "API_KEY = [secret], token: short"),
        ("AKIAABCDEFGHIJKLMNOP, glpat-0123456789abcdefghij", "[secret], [secret]"),
        ("in /home/alice smith/x y", "in [path] y"),
        ("2001:db8::5 answered", "[address] answered"),
        ("ask a.b@example.org", "ask [mail]"),
        ("File '/home/bob/x.py', line 3", "File '[path]', line 3"),
        ("/var/tmp/a:/tmp/b", "[path]:[path]"),
        ("in /tmp", "in [path]"),
        ("/dev/shm/xenia/a, /dev/shmem and /run/user/1000", "[path], /dev/shmem and [path]"),
        ("ip-10-0-0-5.ec2.internal", "[host]"),
        ("db.default.svc.cluster.local, alice-mbp.local", "[host], [host]"),
        ("~jane/vectors, ~/vectors", "[path], ~/vectors"),
        ("ask a.b%40example.org", "ask [mail]"),
        ('DB_PASS=x5 {"pwd": "x6"}', 'DB_PASS=[secret] {"pwd": "[secret]"}'),
        ("https://hooks.slack.com/services/T0/B0/x5", "https://hooks.slack.com/services/[secret]"),
        ("?sv=1&sig=0123456789abcdef%3D&se=2", "?sv=1&sig=[secret]&se=2"),
    ],
)
def test_what_is_private_is_replaced(private, text, expected):
    private.found.clear()
    found = private.text(text)
    assert private.found or "/tmp" in text or "/dev/shm" in text
    for number in range(1, 30):
        found = found.replace(f"-{number}]", "]")
    assert found == expected


@pytest.mark.parametrize(
    "text",
    [
        "PostgreSQL 18.6.3.1", "pgvector 0.8.6.1", "version 18.6.3.1", "pgvector-1.2.3.4", "image:1.2.3.4",
        "Linux 5.15.153.1-microsoft-standard", "v1.2.3.4", "0.8.6.1", "127.0.0.1:5432", "::1", "12:30:45",
        "2026-11-23T11:53:25+00:00", "'[0.08013303,0.37330434,-0.7069041]'::vector", "1.2.3", "std::map",
        "{1:0.5,2:0.25}/1000", "/usr/lib/postgresql/18/bin", "results/mine/10/tmp/x", "and/or", "quokka70",
        "xenias", "/homes/x", "password authentication failed for x", "--no-password x",
        "~10/s", "pwd: /usr", "cookies",
        "host=localhost", "hnsw@at-db-5432", "a@b", "password_encryption", "1.2.3.4.5", "999.1.2.3",
    ],
)  # fmt: skip
def test_versions_times_and_words_stay(private, text):
    private.found.clear()
    assert private.text(text) == text
    assert private.found == set()


@pytest.mark.parametrize("name", ["vector", "postgres", "vm", "index", "page"])
def test_a_host_that_is_called_as_a_plain_word_is_replaced_where_it_is_named(name):
    private = Private([OwnFact(HOST, name)])
    for text in (f"{name} 0.8", f"{name}s", f"a {name} of {name}_version", f'"{name}": 5', f"pg{name}:16"):
        assert private.text(text) == text
    for text in (f"{name}:5432", f"host={name}", f'host "{name}"', f"//{name}/x", f"me@{name}"):
        assert f"{name}" not in private.text(text) and HOST in private.found
    assert private.text(f"hnsw (at {name}:5432)") == "hnsw (at [host-1]:5432)"
    assert (
        private.name(f"results/d/10/hnsw@at-{name}-5432/x.hdf5") == "results/d/10/hnsw@at-host-1-5432/x.hdf5"
    )


def test_a_secret_that_is_a_plain_word_is_replaced_where_it_is_named_and_is_said():
    private = Private([OwnFact(SECRET, "index", "PGPASSWORD"), OwnFact(SECRET, "1234", "MY_TOKEN")])
    assert private.unsafe == ["PGPASSWORD", "MY_TOKEN"]
    assert (
        private.text("an index of 1234 rows, password=index") == "an index of 1234 rows, password=[secret-1]"
    )
    assert private.value({"password": "index", "n": "index"}) == {"password": "[secret-1]", "n": "index"}


@pytest.mark.parametrize(("contact", "kinds"), [("@", ["mail"]), ("a.b@x.org", []), ("b@x.org", ["mail"])])
def test_the_contact_is_allowed_as_a_whole_and_nothing_else(contact, kinds):
    private = Private([], allowed=contact)
    assert (private.text("ask a.b@x.org") == "ask a.b@x.org") == (not kinds)
    assert sorted(private.found) == kinds


def test_accounts_that_everybody_has_are_not_private():
    private = Private([OwnFact(USER, "root"), OwnFact(USER, "postgres"), OwnFact(USER, "page")])
    for text in ('role "postgres"', "the root of the graph", "user=root", "page 5"):
        assert private.text(text) == text
    assert private.text("user=page") == "user=[user-1]"


def test_the_same_text_has_the_same_placeholder_and_others_have_others():
    private = Private([])
    assert private.text("10.0.0.5 10.0.0.6 10.0.0.5") == "[address-1] [address-2] [address-1]"
    assert private.left_out == ["addresses of machines: 2, replaced by [address-1] and so on"]
    assert "10.0" not in str(private.left_out)


def test_texts_inside_of_json_are_replaced_and_it_stays_json():
    private = Private([OwnFact(USER, "Jürgen Ü")])
    inner = json.dumps({"owner": "Jürgen Ü", "n": 1.10, "path": '/home/a"b'})
    found = json.loads(private.value(json.dumps({"settings": inner, "list": [1, None, True, "x"]})))
    assert json.loads(found["settings"])["owner"] == "[user-1]" and json.loads(found["settings"])["n"] == 1.1
    assert found["list"] == [1, None, True, "x"]
    same = '{"a":  1}'
    assert private.value(same) is same


def test_servers_of_results_are_private():
    attrs = {"server_address": "db.shop.example:6432", "docker_image": "reg.shop.example:5000/ann-vchord:1.0"}
    private = Private([], [attrs, {"server_address": "its socket:5432", "docker_image": "ghcr.io/x/y:1"}])
    assert private.value(attrs) == {
        "server_address": "[host-1]:6432",
        "docker_image": "[host-2]:5000/ann-vchord:1.0",
    }
    assert private.text("its socket, ghcr.io/x/y:1") == "its socket, ghcr.io/x/y:1"


def test_what_this_machine_is_called_is_known(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/data/people/xenia")
    monkeypatch.setenv("MY_API_KEY", "0123456789abcdef")
    for name in ("MYSQL_PWD", "GH_PAT", "SSH_PASSPHRASE", "VAULT_AUTH", "COOKIE"):
        monkeypatch.setenv(name, f"precious-{name}")
    monkeypatch.setenv("ANN_BENCHMARKS_PG_HOST", "tcp://db.shop.example:5432")
    monkeypatch.setenv("PGUSER", "xenia")
    monkeypatch.setenv("SCRATCH", "/data/scratch/xenia")
    monkeypatch.setenv("FAST", "/dev/shm/scratch")
    monkeypatch.setattr(socket, "getfqdn", lambda: "quokka7.zoo.example")
    monkeypatch.setenv("ANN_BENCHMARKS_PG_PASSWORD", "pw")
    known = {(fact.kind, fact.text) for fact in facts_here()}
    assert {
        (HOST, "quokka7"),
        (HOST, "db.shop.example"),
        (USER, "xenia"),
        (USER, pwd.getpwuid(os.getuid()).pw_name),
        (PATH, "/data/people/xenia"),
        (PATH, "/data/scratch/xenia"),
        (PATH, "/dev/shm/scratch"),
        (PATH, str(tmp_path)),
        (PATH, str(PROJECT)),
        (SECRET, "0123456789abcdef"),
        *((SECRET, f"precious-{name}") for name in ("MYSQL_PWD", "GH_PAT", "SSH_PASSPHRASE", "COOKIE")),
        *((SECRET, text) for text in ("precious-VAULT_AUTH", "pw")),
    } <= known
    texts = {text for _, text in known}
    assert not texts & {"", "/", "/usr/bin", "/dev/shm", "127.0.0.1", "::1", "localhost"}
