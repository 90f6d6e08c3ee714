const response = await fetch('http://localhost:8080/reply', {
method: 'POST',
headers: {
'Content-Type': 'application/json',
'Authorization': 'Bearer YOUR_API_KEY'
},
body: JSON.stringify({
user_message: {
role: 'user',
content: [{
type: 'text',
text: 'Write a hello world program in Python'
}]
},
session_id: 'session-abc123'
})
});
const reader = response.body.getReader();
const decoder = new TextDecoder();
while (true) {
const { done, value } = await reader.read();
if (done) break;
const chunk = decoder.decode(value);
const lines = chunk.split('\n');
for (const line of lines) {
if (line.startsWith('data: ')) {
const data = JSON.parse(line.slice(6));
switch (data.type) {
case 'Message':
console.log('Assistant:', data.message);
break;
case 'Finish':
console.log('Done!', data.reason);
break;
case 'Error':
console.error('Error:', data.error);
break;
}
}
}
}
