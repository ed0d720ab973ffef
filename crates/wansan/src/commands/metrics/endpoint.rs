//! The endpoint that a Prometheus server asks: `GET /metrics`.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
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

/// Answers scrapes at `listen` from threads of its own until the program ends; gives the address.
///
/// # Errors
/// When it cannot listen there.
pub(super) fn serve(
    listen: SocketAddr,
    text: impl Fn() -> String + Send + Sync + 'static,
) -> Result<SocketAddr> {
    let listener =
        TcpListener::bind(listen).with_context(|| format!("cannot serve metrics at {listen}"))?;
    let address = listener.local_addr().context("the metrics' own address")?;
    let shared = Arc::new((listener, text));
    for _ in 0..ASKERS {
        let shared = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("metrics".to_owned())
            .spawn(move || {
                let (listener, text) = &*shared;
                for asker in listener.incoming() {
                    match asker {
                        // An asker that goes away, or breaks off, is the asker's own affair.
                        Ok(stream) => drop(answer(stream, text)),
                        // Out of descriptors, as a rule: wait for some to come free.
                        Err(_) => std::thread::sleep(PATIENCE),
                    }
                }
            })
            .context("cannot start a thread for metrics")?;
    }
    Ok(address)
}

fn answer(mut stream: TcpStream, text: &impl Fn() -> String) -> io::Result<()> {
    stream.set_write_timeout(Some(PATIENCE))?;
    let (status, body) = match request(&mut stream)? {
        Request::Metrics => ("200 OK", text()),
        Request::ElsePath => ("404 Not Found", "metrics are at /metrics\n".to_owned()),
        Request::ElseMethod => ("405 Method Not Allowed", "only GET\n".to_owned()),
        Request::Malformed => ("400 Bad Request", "this is no HTTP request\n".to_owned()),
    };
    let kind = match status {
        "200 OK" => "application/openmetrics-text; version=1.0.0; charset=utf-8",
        _ => "text/plain; charset=utf-8",
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

enum Request {
    Metrics,
    ElsePath,
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
                return Ok(match (request.method, path) {
                    (Some("GET"), "/metrics") => Request::Metrics,
                    (Some("GET"), _) => Request::ElsePath,
                    _ => Request::ElseMethod,
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

    #[test]
    fn metrics_are_given_and_nothing_else() {
        let here = SocketAddr::from(([127, 0, 0, 1], 0));
        let address = serve(here, || "a 1\n# EOF\n".to_owned()).unwrap();
        let given = ask(address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(given.starts_with("HTTP/1.1 200 OK\r\n"), "{given}");
        assert!(given.ends_with("\r\n\r\na 1\n# EOF\n"), "{given}");
        for (request, status) in [
            ("GET /metrics?name=a HTTP/1.1\r\n\r\n", "200"),
            ("GET / HTTP/1.0\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
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
        assert!(ask(address, "GET /metrics HTTP/1.1\r\n\r\n").contains(" 200 "));
        drop(silent);
        let endless = format!("GET /metrics HTTP/1.1\r\nX: {}", "x".repeat(REQUEST_BYTES));
        let given = ask(address, &endless);
        assert!(given.is_empty() || given.contains(" 400 "), "{given}");
    }
}
