//! A small server of HTTP: what a scraper or a browser asks for with GET, and nothing else.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// The longest request: a scraper's has some hundred bytes.
const REQUEST_BYTES: usize = 8 << 10;

/// Most header fields of a request.
const FIELDS: usize = 64;

/// How long an asker may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// Askers that are answered at once: those that say nothing hold up others only when there are more.
const ASKERS: usize = 8;

/// What is found at a path.
pub(super) enum Found {
    /// Something to send.
    Text {
        /// Its media type.
        kind: &'static str,
        /// All of it.
        body: String,
    },
    /// Something that goes on: its head is not sent yet, and the connection is its own.
    Stream(Box<dyn FnOnce(TcpStream) + Send>),
    /// Nothing; there is something at this other path.
    Nothing(&'static str),
}

/// Answers what is asked at `listen` from threads of its own until the program ends; gives the
/// address. `found` says what there is at a path; `what` is served, in words for an error.
///
/// Where it listens on a loopback address, an asker that names another host is refused: a page of
/// that name, in this computer's browser, is not meant to read what is here.
///
/// # Errors
/// When it cannot listen there.
pub(super) fn serve(
    listen: SocketAddr,
    what: &str,
    found: impl Fn(&str) -> Found + Send + Sync + 'static,
) -> Result<SocketAddr> {
    let listener =
        TcpListener::bind(listen).with_context(|| format!("cannot serve {what} at {listen}"))?;
    let address = listener.local_addr().context("the server's own address")?;
    let loopback = address.ip().is_loopback();
    let shared = Arc::new((listener, found));
    for _ in 0..ASKERS {
        let shared = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("http".to_owned())
            .spawn(move || {
                let (listener, found) = &*shared;
                for asker in listener.incoming() {
                    match asker {
                        // An asker that goes away, or breaks off, is the asker's own affair.
                        Ok(stream) => drop(answer(stream, loopback, found)),
                        // Out of descriptors, as a rule: wait for some to come free.
                        Err(_) => std::thread::sleep(PATIENCE),
                    }
                }
            })
            .with_context(|| format!("cannot start a thread for {what}"))?;
    }
    Ok(address)
}

fn answer(mut stream: TcpStream, loopback: bool, found: &impl Fn(&str) -> Found) -> io::Result<()> {
    const PLAIN: &str = "text/plain; charset=utf-8";
    stream.set_write_timeout(Some(PATIENCE))?;
    let (status, kind, body) = match request(&mut stream)? {
        Request::Get { host, .. } if loopback && !is_here(host.as_deref()) => {
            let body = "use this computer's address, not a name\n".to_owned();
            ("403 Forbidden", PLAIN, body)
        }
        Request::Get { path, .. } => match found(&path) {
            Found::Text { kind, body } => ("200 OK", kind, body),
            Found::Stream(go_on) => {
                go_on(stream);
                return Ok(());
            }
            Found::Nothing(elsewhere) => ("404 Not Found", PLAIN, format!("{elsewhere}\n")),
        },
        Request::ElseMethod => ("405 Method Not Allowed", PLAIN, "only GET\n".to_owned()),
        Request::Malformed => {
            let body = "not an HTTP request\n".to_owned();
            ("400 Bad Request", PLAIN, body)
        }
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// Whether a request's Host is an address or `localhost`. Scrapers of old may send none.
fn is_here(host: Option<&str>) -> bool {
    let Some(host) = host else {
        return true;
    };
    let address: Option<IpAddr> = host
        .parse::<SocketAddr>()
        .map(|address| address.ip())
        .ok()
        .or_else(|| host.trim_matches(['[', ']']).parse().ok());
    let name = host.split(':').next().unwrap_or_default();
    address.is_some() || name.eq_ignore_ascii_case("localhost")
}

enum Request {
    Get {
        /// Without what follows a `?`.
        path: String,
        host: Option<String>,
    },
    ElseMethod,
    Malformed,
}

/// Reads one request; what comes behind it is not looked at.
fn request(stream: &mut TcpStream) -> io::Result<Request> {
    let deadline = Instant::now() + PATIENCE;
    let mut bytes = Vec::new();
    let mut piece = [0; 1024];
    loop {
        let mut fields = [httparse::EMPTY_HEADER; FIELDS];
        let mut request = httparse::Request::new(&mut fields);
        match request.parse(&bytes) {
            Ok(httparse::Status::Complete(_)) => {
                let path = request.path.unwrap_or_default();
                let path = path.split_once('?').map_or(path, |(path, _)| path);
                if request.method != Some("GET") {
                    return Ok(Request::ElseMethod);
                }
                let is_host =
                    |field: &&httparse::Header<'_>| field.name.eq_ignore_ascii_case("host");
                let host = request.headers.iter().find(is_host);
                return Ok(Request::Get {
                    path: path.to_owned(),
                    host: host.map(|field| String::from_utf8_lossy(field.value).into_owned()),
                });
            }
            Ok(httparse::Status::Partial) if bytes.len() < REQUEST_BYTES => {}
            _ => return Ok(Request::Malformed),
        }
        let left = deadline.saturating_duration_since(Instant::now());
        stream.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        match stream.read(&mut piece)? {
            0 => return Ok(Request::Malformed),
            read => bytes.extend_from_slice(&piece[..read]),
        }
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut answer = String::new();
        // A server that has refused may reset what it did not read.
        let _ = stream.read_to_string(&mut answer);
        answer
    }

    fn number(path: &str) -> Found {
        match path {
            "/number" => Found::Text {
                kind: "text/plain",
                body: "1\n".to_owned(),
            },
            "/long" => Found::Stream(Box::new(|mut stream| {
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\n\r\nand so on")
                    .unwrap();
            })),
            _ => Found::Nothing("the number is at /number"),
        }
    }

    #[test]
    fn what_is_there_is_given_and_nothing_else() {
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        let address = serve(here, "numbers", number).unwrap();
        let given = ask(address, "GET /number HTTP/1.1\r\nHost: localhost:9\r\n\r\n");
        assert!(given.starts_with("HTTP/1.1 200 OK\r\n"), "{given}");
        assert!(given.ends_with("\r\n\r\n1\n"), "{given}");
        let given = ask(address, "GET /long HTTP/1.1\r\n\r\n");
        assert!(given.ends_with("and so on"), "{given}");
        for (request, status) in [
            ("GET /number?name=a HTTP/1.1\r\n\r\n", "200"),
            ("GET /number HTTP/1.1\r\nHost: 127.0.0.1:9\r\n\r\n", "200"),
            ("GET /number HTTP/1.1\r\nHost: [::1]:9\r\n\r\n", "200"),
            (
                "GET /number HTTP/1.1\r\nHost: evil.example:9\r\n\r\n",
                "403",
            ),
            ("GET / HTTP/1.0\r\n\r\n", "404"),
            ("POST /number HTTP/1.1\r\n\r\n", "405"),
            ("hello\r\n\r\n", "400"),
        ] {
            let given = ask(address, request);
            let told = given.split(' ').nth(1);
            assert_eq!(told, Some(status), "{request:?}: {given}");
        }
        // Some that say nothing keep nobody else waiting.
        let silent: Vec<TcpStream> = (1..ASKERS)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        assert!(ask(address, "GET /number HTTP/1.1\r\n\r\n").contains(" 200 "));
        drop(silent);
        let endless = format!("GET /number HTTP/1.1\r\nX: {}", "x".repeat(REQUEST_BYTES));
        let given = ask(address, &endless);
        assert!(given.is_empty() || given.contains(" 400 "), "{given}");
    }
}
