// Private to server/http/port: the bytes of a connection, plain or with TLS.
// Nothing blocks: an operation gives its result to its handler, `then`.
//
// Thread-safety: the thread of the port. Ownership: owns the socket. A handler
// must keep the stream and the memory of the bytes alive.
#pragma once

#include <boost/asio/buffer.hpp>
#include <boost/system/error_code.hpp>
#include <cstddef>
#include <functional>
#include <memory>

namespace boost::asio {
class io_context;
namespace ssl {
class context;
}  // namespace ssl
}  // namespace boost::asio

namespace gpupool::server {

class ClientStream {
 public:
  using Code = boost::system::error_code;
  using OnEnd = std::function<void(Code)>;
  using OnBytes = std::function<void(Code, size_t)>;

  virtual ~ClientStream() = default;

  virtual bool has_tls() const = 0;
  // Call it once with TLS, before anything else.
  virtual void Handshake(OnEnd then) = 0;

  // Reads and writes some bytes. At most one of each is under way.
  virtual void Read(boost::asio::mutable_buffer bytes, OnBytes then) = 0;
  virtual void Write(boost::asio::const_buffer first,
                     boost::asio::const_buffer second, OnBytes then) = 0;
  // Writes all of the bytes.
  virtual void WriteAll(boost::asio::const_buffer bytes, OnBytes then) = 0;

  // Closes our side. A client that still sends makes TLS fail to end well,
  // which does not matter.
  virtual void EndSending(OnEnd then) = 0;
  // Reads bytes below TLS, to drop them. Call it after EndSending.
  virtual void ReadRaw(boost::asio::mutable_buffer bytes, OnBytes then) = 0;

  // Waits until something may be wrong with the connection, while other
  // operations are under way.
  virtual void AwaitTrouble(OnEnd then) = 0;
  // Returns whether the connection is reset or broken. It is not when the
  // client has only closed its side.
  virtual bool IsBroken() = 0;

  // Makes the operations under way fail.
  virtual void Cancel() = 0;
  virtual void Close() = 0;
};

// Returns a stream that owns the socket; null when the system refuses to watch
// it. The socket is closed then. Plain if `tls` is null.
std::unique_ptr<ClientStream> MakeClientStream(boost::asio::io_context& io,
                                               boost::asio::ssl::context* tls,
                                               int socket, bool ip6);

}  // namespace gpupool::server
