//! The servers, as data. In every text `{password}`, `{nonce}`, `{folder}` and `{port}` stand for what the start fills in.

use super::Kind;

/// Everything that starting a kind of server takes.
#[derive(Debug)]
pub struct ServerSpec {
    /// The name in variables, commands and reports.
    pub name: &'static str,
    /// The variable with the URL of a server that somebody else runs.
    pub url_variable: &'static str,
    /// The feature of this crate that has the client.
    pub feature: &'static str,
    /// The URL of a server that was started here; `{address}` is its host and port.
    pub url: &'static str,
    /// What the live server must answer for its acknowledged writes to survive a SIGKILL and a loss of power.
    pub durability: &'static [(&'static str, &'static str)],
    /// Arguments of the server, in a container and as a program of this machine alike.
    pub arguments: &'static [&'static str],
    /// As a container.
    pub container: ContainerSpec,
    /// As a program of this machine.
    pub local: LocalSpec,
}

/// A server in a container, from an official image or one that honours the same variables.
#[derive(Debug)]
pub struct ContainerSpec {
    /// The image with its tag.
    pub image: &'static str,
    /// The variable that names another.
    pub image_variable: &'static str,
    /// The port inside the container.
    pub port: u16,
    /// Variables of the image.
    pub environment: &'static [(&'static str, &'static str)],
    /// A line of the log that comes before the server answers.
    pub ready: &'static str,
}

/// A server program of this machine, in a private folder.
#[derive(Debug)]
pub struct LocalSpec {
    /// Names of the program; the first that is found is taken.
    pub programs: &'static [&'static str],
    /// Folders to look in beside `PATH`; a `*` stands for a version, the highest first.
    pub folders: &'static [&'static str],
    /// What `--version` must say, since one product's package installs the other's names.
    pub says: &'static str,
    /// What `--version` must not say.
    pub says_not: &'static str,
    /// The user to run as, when this process is root; `nobody` where there is none of this name.
    pub user: &'static str,
    /// Files in the folder, for the server's user alone.
    pub files: &'static [(&'static str, &'static str)],
    /// What makes the data folder.
    pub prepare: &'static [Step],
    /// Arguments before and after those of the specification.
    pub arguments: (&'static [&'static str], &'static [&'static str]),
    /// The signal for a graceful stop.
    pub stop: Signal,
    /// The signal that ends it at once, without saving, but with its shared memory given back.
    pub end: Signal,
    /// The Debian package, for the remedy.
    pub package: &'static str,
}

/// A program that runs to its end before the server starts.
#[derive(Debug)]
pub struct Step {
    /// Looked for beside the server program, then on `PATH`.
    pub program: &'static str,
    /// Its arguments.
    pub arguments: &'static [&'static str],
}

/// The signals that specifications use.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Signal {
    Int,
    Quit,
    Term,
    Kill,
}

impl Kind {
    /// How it is started.
    #[must_use]
    pub fn spec(self) -> &'static ServerSpec {
        match self {
            Kind::Postgres => &POSTGRES,
            Kind::MySql => &MYSQL,
            Kind::MariaDb => &MARIADB,
            Kind::Redis => &REDIS,
            Kind::Valkey => &VALKEY,
        }
    }
}

const POSTGRES: ServerSpec = ServerSpec {
    name: "postgres",
    url_variable: "IDEM_POSTGRES_URL",
    feature: "postgres",
    url: "postgres://idem:{password}@{address}/postgres",
    durability: &[("fsync", "on"), ("full_page_writes", "on"), ("synchronous_commit", "on")],
    arguments: &[
        "-c",
        "fsync=on",
        "-c",
        "full_page_writes=on",
        "-c",
        "synchronous_commit=on",
        "-c",
        "cluster_name={nonce}",
        "-c",
        "max_connections=300",
        "-c",
        "shared_buffers=64MB",
    ],
    container: ContainerSpec {
        image: "postgres:18",
        image_variable: "IDEM_POSTGRES_IMAGE",
        port: 5432,
        environment: &[("POSTGRES_USER", "idem"), ("POSTGRES_PASSWORD", "{password}"), ("POSTGRES_DB", "postgres")],
        ready: "database system is ready to accept connections",
    },
    local: LocalSpec {
        programs: &["postgres"],
        folders: &["/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin"],
        says: "PostgreSQL",
        says_not: "\0",
        user: "postgres",
        files: &[("password", "{password}\n")],
        prepare: &[Step {
            program: "initdb",
            arguments: &[
                "--pgdata={folder}/data",
                "--username=idem",
                "--pwfile={folder}/password",
                "--auth=scram-sha-256",
                "--encoding=UTF8",
                "--locale=C",
                // The files of an empty cluster need not survive a loss of power.
                "--no-sync",
            ],
        }],
        arguments: (
            &["-D", "{folder}/data"],
            &[
                "-c",
                "listen_addresses=127.0.0.1",
                "-c",
                "port={port}",
                "-c",
                "unix_socket_directories={folder}",
                // Inside the data folder, so that it goes with the folder however the server ends.
                "-c",
                "dynamic_shared_memory_type=mmap",
            ],
        ),
        stop: Signal::Int,
        end: Signal::Quit,
        package: "postgresql",
    },
};

const MYSQL: ServerSpec = ServerSpec {
    name: "mysql",
    url_variable: "IDEM_MYSQL_URL",
    feature: "mysql",
    // The client would ask the server for its socket and then use the file of that name on this machine: with a
    // container that is another server, and with a proxy it is the way around it.
    url: "mysql://root:{password}@{address}/idem?prefer_socket=false",
    durability: &[("innodb_doublewrite", "ON"), ("innodb_flush_log_at_trx_commit", "1"), ("sync_binlog", "1")],
    arguments: &[
        "--innodb-doublewrite=ON",
        "--innodb-flush-log-at-trx-commit=1",
        "--sync-binlog=1",
        "--report-host={nonce}",
        "--max-connections=500",
        "--innodb-buffer-pool-size=64M",
    ],
    container: ContainerSpec {
        image: "mysql:9.7",
        image_variable: "IDEM_MYSQL_IMAGE",
        port: 3306,
        environment: &[("MYSQL_ROOT_PASSWORD", "{password}"), ("MYSQL_DATABASE", "idem")],
        ready: "ready for connections",
    },
    local: LocalSpec {
        programs: &["mysqld"],
        folders: &["/usr/sbin", "/usr/local/mysql/bin"],
        says: "Ver",
        says_not: "MariaDB",
        user: "mysql",
        files: MYSQL_FILES,
        prepare: &[Step {
            program: "mysqld",
            arguments: &["--no-defaults", "--initialize-insecure", "--datadir={folder}/data"],
        }],
        arguments: (
            &["--no-defaults"],
            &[
                "--datadir={folder}/data",
                "--socket={folder}/socket",
                "--pid-file={folder}/pid",
                "--tmpdir={folder}",
                "--init-file={folder}/accounts.sql",
                "--bind-address=127.0.0.1",
                "--port={port}",
                "--skip-name-resolve",
                "--mysqlx=OFF",
            ],
        ),
        stop: Signal::Term,
        end: Signal::Kill,
        package: "mysql-server-core (Debian sid)",
    },
};

const MARIADB: ServerSpec = ServerSpec {
    name: "mariadb",
    url_variable: "IDEM_MARIADB_URL",
    container: ContainerSpec {
        image: "mariadb:11.8",
        image_variable: "IDEM_MARIADB_IMAGE",
        port: 3306,
        environment: &[("MARIADB_ROOT_PASSWORD", "{password}"), ("MARIADB_DATABASE", "idem")],
        ready: "ready for connections",
    },
    local: LocalSpec {
        programs: &["mariadbd", "mysqld"],
        folders: &["/usr/sbin"],
        says: "MariaDB",
        says_not: "\0",
        user: "mysql",
        files: MYSQL_FILES,
        prepare: &[Step {
            program: "mariadb-install-db",
            arguments: &[
                "--no-defaults",
                "--datadir={folder}/data",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
            ],
        }],
        arguments: (
            &["--no-defaults"],
            &[
                "--datadir={folder}/data",
                "--socket={folder}/socket",
                "--pid-file={folder}/pid",
                "--tmpdir={folder}",
                "--init-file={folder}/accounts.sql",
                "--bind-address=127.0.0.1",
                "--port={port}",
                "--skip-name-resolve",
                // What the official image starts with.
                "--character-set-server=utf8mb4",
            ],
        ),
        stop: Signal::Term,
        end: Signal::Kill,
        package: "mariadb-server",
    },
    ..MYSQL
};

/// Run at every start, so each statement must bear being repeated. One statement a line.
const MYSQL_FILES: &[(&str, &str)] = &[(
    "accounts.sql",
    "CREATE DATABASE IF NOT EXISTS idem;\n\
     CREATE USER IF NOT EXISTS root@'127.0.0.1';\n\
     ALTER USER root@'127.0.0.1' IDENTIFIED BY '{password}';\n\
     GRANT ALL ON *.* TO root@'127.0.0.1' WITH GRANT OPTION;\n\
     ALTER USER root@localhost IDENTIFIED BY '{password}';\n",
)];

const REDIS: ServerSpec = ServerSpec {
    name: "redis",
    url_variable: "IDEM_REDIS_URL",
    feature: "redis",
    url: "redis://:{password}@{address}/0",
    durability: &[("appendfsync", "always"), ("appendonly", "yes")],
    // Nothing of these servers is free text that a client may read but the password, so it is the nonce as well.
    arguments: &["--requirepass", "{password}", "--appendonly", "yes", "--appendfsync", "always", "--save", ""],
    container: ContainerSpec {
        image: "redis:8",
        image_variable: "IDEM_REDIS_IMAGE",
        port: 6379,
        environment: &[],
        ready: "Ready to accept connections",
    },
    local: LocalSpec {
        programs: &["redis-server"],
        folders: &[],
        says: "Redis server",
        says_not: "Valkey",
        user: "redis",
        files: &[],
        prepare: &[],
        arguments: (&[], &["--bind", "127.0.0.1", "--port", "{port}", "--dir", "{folder}"]),
        stop: Signal::Term,
        end: Signal::Kill,
        package: "redis-server",
    },
};

const VALKEY: ServerSpec = ServerSpec {
    name: "valkey",
    url_variable: "IDEM_VALKEY_URL",
    container: ContainerSpec { image: "valkey/valkey:9", image_variable: "IDEM_VALKEY_IMAGE", ..REDIS.container },
    local: LocalSpec {
        programs: &["valkey-server"],
        says: "Valkey",
        says_not: "\0",
        user: "valkey",
        package: "valkey-server (Debian trixie)",
        ..REDIS.local
    },
    ..REDIS
};
