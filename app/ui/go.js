// Opens another page of the dashboard, as a link does, so that the way back is one step.
export default function ({ data }) {
  const wanted = new URL(data.url, location.href);
  if (wanted.origin === location.origin && wanted.href !== location.href) location.assign(wanted);
}
