//! A small HTTP server: it answers GET requests of scrapers and browsers, and nothing else.

use std::io::{self, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest request: a scraper's has some hundred bytes.
const REQUEST_BYTES: usize = 8 << 10;

/// Most header fields of a request.
const FIELDS: usize = 64;

/// How long a client may take.
const PATIENCE: Duration = Duration::from_secs(1);

/// Clients that are answered at once: silent ones hold up others only when there are more.
const CLIENTS: usize = 8;

/// The answer to a request.
pub enum Response {
    /// A complete body.
    Body {
        /// Its media type.
        media_type: &'static str,
        /// All of it.
        body: String,
    },
    /// A body without an end: the function takes over the connection, and sends the head, too.
    Stream(Box<dyn FnOnce(TcpStream) + Send>),
    /// Status 404, with a line that says what is found where.
    NotFound(&'static str),
}

impl Response {
    /// JSON.
    #[must_use]
    pub fn json(body: String) -> Response {
        Response::Body {
            media_type: "application/json",
            body,
        }
    }

    /// Metrics for a Prometheus server.
    #[must_use]
    pub fn openmetrics(body: String) -> Response {
        Response::Body {
            media_type: "application/openmetrics-text; version=1.0.0; charset=utf-8",
            body,
        }
    }
}

/// A server could not be started.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address cannot be had.
    #[error("cannot serve {what} at {listen}")]
    Listen {
        /// What was to be served.
        what: String,
        /// Where.
        listen: SocketAddr,
        /// Why not.
        source: io::Error,
    },
    /// The machine gives no thread.
    #[error("cannot start a thread for {what}")]
    Thread {
        /// What was to be served.
        what: String,
        /// Why not.
        source: io::Error,
    },
}

/// Answers requests at `listen` from threads of its own until the program ends; returns the address. `respond`
/// gets the path of a request; `what` names what is served, for errors.
///
/// Where it listens on a loopback address, a request that names another host is refused: a page of
/// that name, in this computer's browser, must not read what is here (DNS rebinding).
///
/// # Errors
/// When it cannot listen there.
pub fn serve(
    listen: SocketAddr,
    what: &str,
    respond: impl Fn(&str) -> Response + Send + Sync + 'static,
) -> Result<SocketAddr, ServeError> {
    let unheard = |source| ServeError::Listen {
        what: what.to_owned(),
        listen,
        source,
    };
    let listener = TcpListener::bind(listen).map_err(unheard)?;
    let address = listener.local_addr().map_err(unheard)?;
    let loopback = address.ip().is_loopback();
    let shared = Arc::new((listener, respond));
    for _ in 0..CLIENTS {
        let shared = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("http".to_owned())
            .spawn(move || {
                let (listener, respond) = &*shared;
                for client in listener.incoming() {
                    match client {
                        // A client that goes away needs no answer.
                        Ok(stream) => drop(answer(stream, loopback, respond)),
                        // Out of descriptors, as a rule: wait for some to come free.
                        Err(_) => std::thread::sleep(PATIENCE),
                    }
                }
            })
            .map_err(|source| ServeError::Thread {
                what: what.to_owned(),
                source,
            })?;
    }
    Ok(address)
}

fn answer(
    mut stream: TcpStream,
    loopback: bool,
    respond: &impl Fn(&str) -> Response,
) -> io::Result<()> {
    const PLAIN: &str = "text/plain; charset=utf-8";
    stream.set_write_timeout(Some(PATIENCE))?;
    let (status, media_type, body) = match request(&mut stream)? {
        Request::Get { host, .. } if loopback && !is_here(host.as_deref()) => {
            let body = "use this computer's address, not a name\n".to_owned();
            ("403 Forbidden", PLAIN, body)
        }
        Request::Get { path, .. } => match respond(&path) {
            Response::Body { media_type, body } => ("200 OK", media_type, body),
            Response::Stream(take_over) => {
                take_over(stream);
                return Ok(());
            }
            Response::NotFound(hint) => ("404 Not Found", PLAIN, format!("{hint}\n")),
        },
        Request::ElseMethod => ("405 Method Not Allowed", PLAIN, "only GET\n".to_owned()),
        Request::Malformed => {
            let body = "not an HTTP request\n".to_owned();
            ("400 Bad Request", PLAIN, body)
        }
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {media_type}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
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

    fn number(path: &str) -> Response {
        match path {
            "/number" => Response::Body {
                media_type: "text/plain",
                body: "1\n".to_owned(),
            },
            "/long" => Response::Stream(Box::new(|mut stream| {
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\n\r\nand so on")
                    .unwrap();
            })),
            _ => Response::NotFound("the number is at /number"),
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
            let status_code = given.split(' ').nth(1);
            assert_eq!(status_code, Some(status), "{request:?}: {given}");
        }
        // Some that say nothing keep nobody else waiting.
        let silent: Vec<TcpStream> = (1..CLIENTS)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect();
        assert!(ask(address, "GET /number HTTP/1.1\r\n\r\n").contains(" 200 "));
        drop(silent);
        let endless = format!("GET /number HTTP/1.1\r\nX: {}", "x".repeat(REQUEST_BYTES));
        let given = ask(address, &endless);
        assert!(given.is_empty() || given.contains(" 400 "), "{given}");
    }
}
