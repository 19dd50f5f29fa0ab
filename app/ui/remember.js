// Stores the name that a person has typed, for forms of later visits.
export default function ({ data }) {
  const name = encodeURIComponent(data.name);
  document.cookie = `${data.cookie}=${name}; Path=/; Max-Age=31536000; SameSite=Strict`;
}
