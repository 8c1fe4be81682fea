package streams
