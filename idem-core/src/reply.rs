//! Values that can be recorded and replayed: any `T` that is bytes, and JSON.

use std::error::Error as StdError;

use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::{Recorded, Response};

/// What goes wrong when a value is turned into a response or back.
pub type CodecError = Box<dyn StdError + Send + Sync>;

/// A value that an operation returns: recorded after the first run, read back for every replay.
///
/// The record outlives a deployment, so what is stored is bytes, never a type: a value that cannot be read back any
/// more is an error of the replay and never a reason to run again.
pub trait Reply: Sized + Send + 'static {
    /// What to record. An error, or a value that says so itself, leaves a tombstone: the effect has happened.
    ///
    /// # Errors
    /// Whatever keeps the value from becoming bytes.
    fn record(&self) -> Result<Recorded, CodecError>;

    /// The value of a recorded response.
    ///
    /// # Errors
    /// When the bytes are not such a value.
    fn replay(response: Response) -> Result<Self, CodecError>;
}

impl Reply for Response {
    fn record(&self) -> Result<Recorded, CodecError> {
        Ok(Recorded::Response(self.clone()))
    }

    fn replay(response: Response) -> Result<Response, CodecError> {
        Ok(response)
    }
}

impl Reply for () {
    fn record(&self) -> Result<Recorded, CodecError> {
        Ok(Response::default().into())
    }

    fn replay(_: Response) -> Result<(), CodecError> {
        Ok(())
    }
}

impl Reply for Bytes {
    fn record(&self) -> Result<Recorded, CodecError> {
        Ok(Response::default().with_body(self.clone()).into())
    }

    fn replay(response: Response) -> Result<Bytes, CodecError> {
        response.body.ok_or_else(|| "the recorded response has no body".into())
    }
}

impl Reply for Vec<u8> {
    fn record(&self) -> Result<Recorded, CodecError> {
        Ok(Response::default().with_body(self.clone()).into())
    }

    fn replay(response: Response) -> Result<Vec<u8>, CodecError> {
        Bytes::replay(response).map(Vec::from)
    }
}

impl Reply for String {
    fn record(&self) -> Result<Recorded, CodecError> {
        Ok(Response::default().with_body(self.clone()).into())
    }

    fn replay(response: Response) -> Result<String, CodecError> {
        Ok(String::from_utf8(Vec::<u8>::replay(response)?)?)
    }
}

/// Records and replays its value as JSON.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Json<T>(pub T);

impl<T: Serialize + DeserializeOwned + Send + 'static> Reply for Json<T> {
    fn record(&self) -> Result<Recorded, CodecError> {
        Ok(Response::default().with_meta("application/json").with_body(serde_json::to_vec(&self.0)?).into())
    }

    fn replay(response: Response) -> Result<Json<T>, CodecError> {
        Ok(Json(serde_json::from_slice(&Bytes::replay(response)?)?))
    }
}
