package streams

// see /root/notes
