#include "server/http/port/client_stream.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/write.hpp>
#include <type_traits>
#include <utility>

namespace gpupool::server {
namespace {

using Tcp = boost::asio::ip::tcp;

template <typename Stream>
class StreamOf final : public ClientStream {
 public:
  explicit StreamOf(Stream stream) : stream_(std::move(stream)) {}

  bool has_tls() const override { return kTls; }

  void Handshake(OnEnd then) override {
    if constexpr (kTls) {
      stream_.async_handshake(boost::asio::ssl::stream_base::server,
                              std::move(then));
    } else {
      then(Code());
    }
  }

  void Read(boost::asio::mutable_buffer bytes, OnBytes then) override {
    stream_.async_read_some(bytes, std::move(then));
  }

  void Write(boost::asio::const_buffer first, boost::asio::const_buffer second,
             OnBytes then) override {
    if (first.size() == 0) {
      return stream_.async_write_some(second, std::move(then));
    }
    const std::array<boost::asio::const_buffer, 2> both = {first, second};
    stream_.async_write_some(both, std::move(then));
  }

  void WriteAll(boost::asio::const_buffer bytes, OnBytes then) override {
    boost::asio::async_write(stream_, bytes, std::move(then));
  }

  void EndSending(OnEnd then) override {
    if constexpr (kTls) {
      stream_.async_shutdown([this, then = std::move(then)](Code error) {
        Shut();
        then(error);
      });
    } else {
      Shut();
      then(Code());
    }
  }

  void ReadRaw(boost::asio::mutable_buffer bytes, OnBytes then) override {
    tcp().async_read_some(bytes, std::move(then));
  }

  void AwaitTrouble(OnEnd then) override {
    tcp().async_wait(Tcp::socket::wait_error, std::move(then));
  }

  bool IsBroken() override {
    int error = 0;
    socklen_t size = sizeof(error);
    return ::getsockopt(tcp().native_handle(), SOL_SOCKET, SO_ERROR, &error,
                        &size) != 0 ||
           error != 0;
  }

  void Cancel() override {
    Code ignored;
    tcp().cancel(ignored);
  }

  void Close() override {
    Code ignored;
    tcp().close(ignored);
  }

 private:
  static constexpr bool kTls = !std::is_same_v<Stream, Tcp::socket>;

  Tcp::socket& tcp() {
    if constexpr (kTls) {
      return stream_.next_layer();
    } else {
      return stream_;
    }
  }

  void Shut() {
    Code ignored;
    tcp().shutdown(Tcp::socket::shutdown_send, ignored);
  }

  Stream stream_;
};

}  // namespace

std::unique_ptr<ClientStream> MakeClientStream(boost::asio::io_context& io,
                                               boost::asio::ssl::context* tls,
                                               int socket, bool ip6) {
  Tcp::socket tcp(io);
  ClientStream::Code error;
  tcp.assign(ip6 ? Tcp::v6() : Tcp::v4(), socket, error);
  if (error) {
    ::close(socket);
    return nullptr;
  }
  if (tls == nullptr) {
    return std::make_unique<StreamOf<Tcp::socket>>(std::move(tcp));
  }
  using TlsStream = boost::asio::ssl::stream<Tcp::socket>;
  return std::make_unique<StreamOf<TlsStream>>(TlsStream(std::move(tcp), *tls));
}

}  // namespace gpupool::server
